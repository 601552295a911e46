//! The order of dispatches: those that do not depend on each other stand together, so that few barriers are needed.

use super::dispatch::{Dispatch, Span};

fn meet(a: &[Span], b: &[Span]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.overlaps(y)))
}

/// Whether `later` must see `earlier` finished: it reads or overwrites what that wrote, or overwrites what that reads.
fn depends(later: &Dispatch, earlier: &Dispatch) -> bool {
    meet(&later.reads, &earlier.writes) || meet(&later.writes, &earlier.writes) || meet(&later.writes, &earlier.reads)
}

/// Sorts dispatches by the longest chain of others that each must wait for; a barrier between two levels is enough.
pub fn by_level(dispatches: Vec<Dispatch>) -> Vec<Dispatch> {
    // The level of each; levels so far are searched from the last one down, since most depend on something recent.
    let mut levels: Vec<usize> = Vec::with_capacity(dispatches.len());
    let mut members: Vec<Vec<usize>> = Vec::new();
    for (i, d) in dispatches.iter().enumerate() {
        let waits = members.iter().rposition(|level| level.iter().any(|&j| depends(d, &dispatches[j])));
        let level = waits.map_or(0, |l| l + 1);
        if level == members.len() {
            members.push(Vec::new());
        }
        members[level].push(i);
        levels.push(level);
    }
    let mut order: Vec<usize> = (0..dispatches.len()).collect();
    order.sort_by_key(|&i| levels[i]);
    let mut slots: Vec<Option<Dispatch>> = dispatches.into_iter().map(Some).collect();
    order.into_iter().filter_map(|i| slots[i].take()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Push;
    use super::*;
    use proptest::prelude::*;

    fn dispatch(tag: u32, reads: &[u64], writes: &[u64]) -> Dispatch {
        let spans = |list: &[u64]| list.iter().map(|&start| Span { start, len: 4 }).collect();
        let (reads, writes) = (spans(reads), spans(writes));
        Dispatch { shader: "x", spec: vec![tag], push: Push::new(), groups: [1; 3], reads, writes, work: 0.0 }
    }

    #[test]
    fn what_is_independent_stands_together() {
        // q = f(x); rope q; k = f(x); rope k; v = f(x)
        let list = vec![
            dispatch(0, &[0], &[8]),
            dispatch(1, &[8], &[8]),
            dispatch(2, &[0], &[16]),
            dispatch(3, &[16], &[16]),
            dispatch(4, &[0], &[24]),
        ];
        let order: Vec<u32> = by_level(list).iter().map(|d| d.spec[0]).collect();
        assert_eq!(order, [0, 2, 4, 1, 3]);
    }

    proptest! {
        #[test]
        fn memory_holds_the_same_in_the_end(list in prop::collection::vec(
            (prop::collection::vec(0..6_u64, 0..3), prop::collection::vec(0..6_u64, 1..3)), 0..24)) {
            // Each dispatch mixes what it reads into what it writes; the order matters exactly where memory is shared.
            let run = |order: &[Dispatch]| {
                let mut memory = [1_u64; 6];
                for d in order {
                    let sum = d.reads.iter().fold(u64::from(d.spec[0]), |s, r| {
                        s.wrapping_mul(31).wrapping_add(memory[r.start as usize / 4])
                    });
                    for w in &d.writes {
                        memory[w.start as usize / 4] = sum;
                    }
                }
                memory
            };
            let at = |list: &[u64]| list.iter().map(|i| i * 4).collect::<Vec<_>>();
            let list: Vec<_> =
                list.iter().enumerate().map(|(i, (r, w))| dispatch(i as u32, &at(r), &at(w))).collect();
            prop_assert_eq!(run(&list), run(&by_level(list.clone())));
        }
    }
}
