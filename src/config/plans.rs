//! `TRI_MODE`, `TRI_OBJECTIVE` and `TRI_QUOTA`: how TRI0 plans.

use crate::engine::EngineKind;
use crate::plan::{Mode, Objective, Quota};

pub(super) fn mode(text: &str) -> Option<Mode> {
    match text {
        "adaptive" => Some(Mode::Adaptive),
        "frozen" => Some(Mode::Frozen),
        "off" => Some(Mode::Off),
        _ => None,
    }
}

pub(super) fn objective(text: &str) -> Option<Objective> {
    match text {
        "speed" => Some(Objective::Speed),
        "energy" => Some(Objective::Energy),
        _ => None,
    }
}

/// `cpu:0.25,gpu:0.75`: each engine at most once, shares that are not negative and not all zero.
pub(super) fn quota(text: &str) -> Option<Option<Quota>> {
    if text == "off" {
        return Some(None);
    }
    let mut shares = Vec::new();
    for part in text.split(',') {
        let (name, share) = part.split_once(':')?;
        let engine = [EngineKind::Cpu, EngineKind::Gpu].into_iter().find(|e| e.name() == name)?;
        let share = share.parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0)?;
        if shares.iter().any(|(known, _)| *known == engine) {
            return None;
        }
        shares.push((engine, share));
    }
    (shares.iter().map(|s| s.1).sum::<f64>() > 0.0).then_some(Some(Quota { shares }))
}
