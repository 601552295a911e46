//! Several processors on one memory.

use super::processor::Item;

/// Share of the bus that is left when more than one processor reads: rows of memory are opened for one and closed for
/// another.
const MIXED: f64 = 0.94;

/// When each lane of items is done, if all begin at once and share `bus` bytes per second. A lane that asks for less than
/// its fair part gets what it asks for; the others divide the rest.
pub fn together(bus: f64, lanes: &[Vec<Item>]) -> Vec<f64> {
    let mut at: Vec<(usize, f64)> = lanes.iter().map(|_| (0, 1.0)).collect();
    let (mut ends, mut now) = (vec![0.0; lanes.len()], 0.0);
    loop {
        // Items that take no time are over.
        for (lane, (i, left)) in lanes.iter().zip(&mut at) {
            while lane.get(*i).is_some_and(|item| item.seconds * *left <= 1e-12) {
                (*i, *left) = (*i + 1, 1.0);
            }
        }
        let item = |l: usize| lanes[l].get(at[l].0);
        let demand = |l: usize| item(l).map_or(0.0, |i| i.bytes / i.seconds);
        let running: Vec<usize> = (0..lanes.len()).filter(|l| item(*l).is_some()).collect();
        if running.is_empty() {
            return ends;
        }
        let mut askers: Vec<usize> = running.iter().copied().filter(|l| demand(*l) > 0.0).collect();
        askers.sort_by(|a, b| demand(*a).total_cmp(&demand(*b)));
        let mut speed = vec![1.0; lanes.len()];
        let mut rest = if askers.len() > 1 { bus * MIXED } else { bus };
        for (done, l) in askers.iter().enumerate() {
            let part = demand(*l).min(rest / (askers.len() - done) as f64);
            speed[*l] = part / demand(*l);
            rest -= part;
        }
        let left = |l: usize| item(l).map_or(0.0, |i| i.seconds * at[l].1 / speed[l]);
        let step = running.iter().map(|l| left(*l)).fold(f64::INFINITY, f64::min);
        now += step;
        let gone: Vec<f64> = running.iter().map(|l| step * speed[*l] / lanes[*l][at[*l].0].seconds).collect();
        for (l, gone) in running.into_iter().zip(gone) {
            at[l].1 -= gone;
            if at[l].1 <= 1e-9 {
                at[l] = (at[l].0 + 1, 1.0);
                ends[l] = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(seconds: f64, bytes: f64) -> Item {
        Item { seconds, bytes }
    }

    #[test]
    fn lanes_that_fit_do_not_slow_each_other_down() {
        let ends = together(100.0, &[vec![item(1.0, 40.0)], vec![item(0.5, 10.0), item(0.25, 0.0)]]);
        assert!((ends[0] - 1.0).abs() < 1e-9 && (ends[1] - 0.75).abs() < 1e-9, "{ends:?}");
    }

    #[test]
    fn lanes_that_do_not_fit_take_as_long_as_the_bus_needs() {
        let ends = together(100.0, &[vec![item(1.0, 100.0)], vec![item(1.0, 100.0)]]);
        assert!(ends.iter().all(|e| (e - 2.0 / MIXED).abs() < 1e-6), "{ends:?}");
        // One that asks for little keeps its pace.
        let ends = together(100.0, &[vec![item(1.0, 100.0)], vec![item(1.0, 10.0)]]);
        assert!((ends[1] - 1.0).abs() < 1e-6 && ends[0] > 1.1, "{ends:?}");
    }
}
