//! The rows of one product for several engines: water-filling, so that all end at the same moment.

use super::costs::Costs;
use super::work::Work;
use crate::chip::model::Chip;
use crate::engine::EngineKind;

/// What something takes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measure {
    /// Seconds.
    pub seconds: f64,
    /// Joules of the engines while they compute; what the idle chip takes is not in it.
    pub joules: f64,
}

/// How many rows an engine computes, in the order of the rows.
pub type Parts = Vec<(EngineKind, u64)>;

/// Rows come in multiples of this when these engines share them.
pub fn unit(chip: &Chip, engines: &[EngineKind]) -> u64 {
    let rows = engines.iter().filter_map(|e| chip.processor(*e)).map(|p| u64::from(p.rows));
    // Every kind of engine has a power of two, so the largest is a multiple of all.
    rows.max().unwrap_or(1).max(1)
}

/// A wave in which each engine computes its rows: it lasts as long as the slowest.
pub fn wave(costs: &Costs, work: &Work, parts: &[(EngineKind, u64)]) -> Measure {
    let parts = works(work, parts);
    let seconds = costs.beside(&parts);
    let joules = parts.iter().zip(&seconds).map(|(p, s)| s * watts(costs.chip(), p.0)).sum();
    Measure { seconds: seconds.into_iter().fold(0.0, f64::max) + costs.join(), joules }
}

/// What each engine computes.
pub fn works(work: &Work, parts: &[(EngineKind, u64)]) -> Vec<(EngineKind, Work)> {
    parts.iter().map(|&(e, rows)| (e, work.with_rows(rows))).collect()
}

/// Watts of an engine while it computes.
pub fn watts(chip: &Chip, engine: EngineKind) -> f64 {
    chip.processor(engine).map_or(0.0, |p| p.watts.max(0.0))
}

/// Divides a product among these engines so that the wave is short; `None` if fewer than two of them get rows.
pub fn fill(costs: &Costs, work: &Work, engines: &[EngineKind]) -> Option<Parts> {
    let unit = unit(costs.chip(), engines);
    if work.m < 2 * unit {
        return None;
    }
    // The first guess of an engine's share, when nothing is known of its seconds but that they are the same for each row.
    let mut rows: Vec<u64> = vec![work.m / engines.len() as u64; engines.len()];
    let mut best: Option<(f64, Parts)> = None;
    // Seconds per row depend on the number of rows, so the division is repeated with those of the last one.
    for _ in 0..4 {
        let asked: Vec<(EngineKind, u64)> =
            engines.iter().zip(&rows).map(|(&e, r)| (e, (*r).clamp(unit, work.m))).collect();
        let seconds = costs.beside(&works(work, &asked));
        let rate = |(&(e, m), s): (&(EngineKind, u64), &f64)| {
            let launch = costs.launch(e);
            (launch, (s - launch) / m as f64)
        };
        let rates: Vec<(f64, f64)> = asked.iter().zip(&seconds).map(rate).collect();
        let poured = level(work.m as f64, &rates);
        rows = poured.iter().map(|r| *r as u64).collect();
        for parts in rounded(work.m, unit, engines, &poured) {
            let seconds = wave(costs, work, &parts).seconds;
            if best.as_ref().is_none_or(|b| seconds < b.0) {
                best = Some((seconds, parts));
            }
        }
    }
    best.map(|b| b.1).filter(|parts| parts.len() > 1)
}

/// Rows for engines with (seconds before the first row, seconds per row): poured until all are level.
fn level(m: f64, rates: &[(f64, f64)]) -> Vec<f64> {
    let usable = |r: &(f64, f64)| r.0.is_finite() && r.1.is_finite() && r.1 > 0.0;
    let mut order: Vec<usize> = (0..rates.len()).filter(|&i| usable(&rates[i])).collect();
    order.sort_by(|&a, &b| rates[a].0.total_cmp(&rates[b].0));
    let (mut per_second, mut owed, mut end) = (0.0, 0.0, f64::INFINITY);
    for &i in &order {
        // The next engine would begin after the others have ended.
        if rates[i].0 >= end {
            break;
        }
        per_second += 1.0 / rates[i].1;
        owed += rates[i].0 / rates[i].1;
        end = (m + owed) / per_second;
    }
    let poured = |r: &(f64, f64)| if usable(r) { ((end - r.0) / r.1).max(0.0) } else { 0.0 };
    rates.iter().map(poured).collect()
}

/// The ways to round each border between engines down or up to a multiple of `unit`; engines without rows are left out.
fn rounded(m: u64, unit: u64, engines: &[EngineKind], rows: &[f64]) -> Vec<Parts> {
    let borders = engines.len() - 1;
    let mut ways = Vec::new();
    for way in 0..1_u32 << borders {
        let (mut parts, mut sum, mut from) = (Parts::new(), 0.0, 0);
        for (i, engine) in engines.iter().enumerate() {
            sum += rows[i];
            let down = (sum / unit as f64).floor() as u64 + u64::from(way >> i & 1 == 1);
            let to = if i == borders { m } else { (down * unit).clamp(from, m) };
            if to > from {
                parts.push((*engine, to - from));
            }
            from = to;
        }
        ways.push(parts);
    }
    ways
}

/// Divides rows by forced shares, in multiples of `unit` except the last part; `None` if the rows do not suffice for two.
pub fn forced(m: u64, unit: u64, shares: &[(EngineKind, f64)]) -> Option<Parts> {
    let weight = |s: &f64| if s.is_finite() && *s > 0.0 { *s } else { 0.0 };
    let total: f64 = shares.iter().map(|s| weight(&s.1)).sum();
    if total <= 0.0 {
        return None;
    }
    let (mut parts, mut sum, mut from) = (Parts::new(), 0.0, 0);
    let last = shares.iter().rposition(|s| weight(&s.1) > 0.0)?;
    for (i, (engine, share)) in shares.iter().enumerate() {
        sum += weight(share) / total;
        let to = if i == last { m } else { ((sum * m as f64 / unit as f64).round() as u64 * unit).clamp(from, m) };
        if to > from {
            parts.push((*engine, to - from));
        }
        from = to;
    }
    (parts.len() > 1).then_some(parts)
}
