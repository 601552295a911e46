//! What engines take that compute the rows of one product side by side.

use super::{Costs, ENOUGH, param};
use crate::engine::EngineKind;
use crate::plan::work::Work;

impl Costs {
    /// Seconds of each engine's rows of one product while the others compute theirs, launches included.
    pub fn beside(&self, parts: &[(EngineKind, Work)]) -> Vec<f64> {
        let alone: Vec<f64> = parts.iter().map(|(e, work)| self.seconds(*e, work)).collect();
        let shared = |e: &EngineKind| self.chip.shared.contains(e);
        let bytes: f64 = parts.iter().filter(|p| shared(&p.0)).map(|p| p.1.bytes()).sum();
        let longest = parts.iter().zip(&alone).filter(|(p, _)| shared(&p.0)).map(|(_, s)| *s).fold(0.0, f64::max);
        // The memory that they share limits all of them alike, until it is measured that it does not.
        let stretch = if longest > 0.0 { (bytes / self.chip.bus.max(1.0) / longest).max(1.0) } else { 1.0 };
        let second = |(part, alone): (&(EngineKind, Work), &f64)| {
            let stretch = if shared(&part.0) { stretch } else { 1.0 };
            self.launch(part.0) + alone * stretch * self.filter.factor(param::beside(parts, part))
        };
        parts.iter().zip(&alone).map(second).collect()
    }

    /// Learns from engines that computed the rows of one product side by side: the seconds of each.
    pub fn observe_beside(&mut self, parts: &[(EngineKind, Work)], seconds: &[f64]) {
        let predicted = self.beside(parts);
        for ((part, predicted), measured) in parts.iter().zip(predicted).zip(seconds) {
            let busy = predicted - self.launch(part.0);
            let took = measured - self.launch(part.0);
            if busy > 0.0 && took > 0.1 * busy && took.is_finite() {
                self.filter.learn(&[(param::beside(parts, part), 1.0)], (took / busy).ln());
            }
        }
    }

    /// Whether it was measured how engines do beside each other.
    pub fn known_beside(&self, parts: &[(EngineKind, Work)]) -> bool {
        parts.iter().all(|part| self.filter.weight(param::beside(parts, part)) >= ENOUGH)
    }
}
