//! What the planner says: whole sentences with numbers.

use super::adapt::Change;
use super::assign::{Assignment, Share};
use super::drift::Drift;
use super::group::Verdict;
use super::search::Mix;
use std::collections::BTreeMap;

/// Words for a class of widths.
fn widths(class: u8) -> String {
    // Classes above 16 double: 17 is 17 to 32.
    if class == 0 { "1 to 16".into() } else { format!("{} to {}", (1_u64 << (class - 13)) + 1, 1_u64 << (class - 12)) }
}

/// A duration in words.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

/// Words for who computes something: `gpu`, or `cpu 1024 + gpu 3072 rows`.
pub fn who(share: &Share) -> String {
    match share {
        Share::Whole(engine) => engine.name().to_owned(),
        Share::Split(parts) => {
            let parts: Vec<String> = parts.iter().map(|(e, rows)| format!("{} {rows}", e.name())).collect();
            format!("{} rows", parts.join(" + "))
        }
    }
}

/// A plan changes.
pub fn change(class: u8, mix: &Mix, from: &Assignment, change: &Change) -> String {
    let (mut moved, mut all, mut ways) = (0, 0, BTreeMap::new());
    if let Some((problem, _)) = mix.problems.first() {
        for site in problem.items.iter().filter_map(|item| problem.loads[item.load].site) {
            let site = problem.sites[site];
            all += 1;
            if from.share(&site) != change.to.share(&site) {
                moved += 1;
                *ways.entry(format!("{} to {}", site.words(), who(&change.to.share(&site)))).or_insert(0) += 1;
            }
        }
    }
    let home = if from.home == change.to.home {
        String::new()
    } else {
        format!(", the rest from {} to {}", from.home.name(), change.to.home.name())
    };
    let ways: Vec<String> = ways.into_iter().map(|(way, n)| format!("{n} {way}")).collect();
    format!(
        "widths {} are planned anew: {moved} of {all} products and attentions move ({}){home}; {:.1} % less is expected",
        widths(class),
        ways.join(", "),
        100.0 * change.gain
    )
}

/// A change was judged.
pub fn verdict(class: u8, verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Kept(_) => None,
        Verdict::Dropped(gain) => Some(format!(
            "widths {}: the new plan is undone, since graphs took {:.1} % {} time than before",
            widths(class),
            100.0 * (gain.abs().exp() - 1.0),
            if *gain > 0.0 { "less, not enough," } else { "more" }
        )),
    }
}

/// An engine has changed.
pub fn drift(drift: &Drift) -> String {
    let (by, how) = if drift.ratio > 1.0 { (drift.ratio, "longer") } else { (1.0 / drift.ratio, "shorter") };
    format!(
        "the {} takes {:.0} % {how} than was learned: {} factors of its costs are learned again",
        drift.engine.name(),
        100.0 * if how == "longer" { by - 1.0 } else { 1.0 - 1.0 / by },
        drift.factors
    )
}
