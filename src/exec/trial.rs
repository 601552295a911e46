//! Trials: some nodes of a graph computed a second time, another way, into memory of their own. Nobody reads the results;
//! what counts is the time.

use super::{Engines, StepError, run_waves};
use crate::engine::Outcome;
use crate::ggml::HostGraph;
use crate::graph::shadow::Shadow;
use crate::plan::Wave;
use crate::plan::timing::TrialTiming;
use std::time::Instant;

/// Runs nodes both ways, the candidate first or last, after one run of each that fills caches and compiles shaders.
///
/// # Errors
/// A step that did not end with `Done`. The graph is unharmed.
pub fn try_out(
    shadow: &Shadow,
    candidate: &[Wave],
    current: &[Wave],
    candidate_first: bool,
    host: &HostGraph,
    engines: &mut Engines,
) -> Result<TrialTiming, StepError> {
    let mut run = |waves: &[Wave]| {
        let begin = Instant::now();
        let steps = run_waves(waves, &shadow.graph, &mut |kind, step| {
            let Some(engine) = engines.of(kind) else { return Outcome::Failed };
            match step {
                Some(step) => engine.begin_shadow(step, shadow, host),
                None => engine.finish(),
            }
        })?;
        Ok((begin.elapsed().as_secs_f64(), steps))
    };
    let order = if candidate_first { [candidate, current] } else { [current, candidate] };
    for waves in order {
        run(waves)?;
    }
    let [first, second] = [run(order[0])?, run(order[1])?];
    let ((candidate, steps), (current, _)) = if candidate_first { (first, second) } else { (second, first) };
    Ok(TrialTiming { candidate, current, steps })
}
