//! Trials: some nodes of a graph computed a second time, another way, into memory of their own. Nobody reads the results;
//! what counts is the time.

use super::{Engines, StepError, run_waves};
use crate::engine::Outcome;
use crate::ggml::HostGraph;
use crate::graph::shadow::Shadow;
use crate::plan::Trial;
use crate::plan::timing::Timing;
use std::time::Instant;

/// A trial with what it needs.
pub struct Attempt<'a> {
    /// Which nodes, and how.
    pub trial: &'a Trial,
    /// The graph with their results elsewhere.
    pub shadow: &'a Shadow,
    /// Whether it runs before the plan's own way: the second one finds warm caches, so the order alternates.
    pub before: bool,
    /// Whether it is the first of its kind: then it runs once unmeasured, which compiles shaders and records steps.
    pub new: bool,
}

/// How a trial went.
pub(super) struct Candidate {
    /// Seconds of the measured run.
    pub seconds: f64,
    /// Its steps.
    pub steps: Vec<Timing>,
    /// Seconds of everything.
    pub spent: f64,
}

/// Runs the nodes of a trial; `None` when that came to nothing, which does not harm the graph.
///
/// # Errors
/// What the graph itself could not go on after: the host stops it, or the engine is lost.
pub(super) fn candidate(
    attempt: &Attempt,
    host: &HostGraph,
    engines: &mut Engines,
) -> Result<Option<Candidate>, StepError> {
    let shadow = attempt.shadow;
    let mut once = || -> Result<_, StepError> {
        let begin = Instant::now();
        let steps = run_waves(&attempt.trial.waves, Some(&shadow.graph), &mut |kind, step| {
            let Some(engine) = engines.of(kind) else { return Outcome::Failed };
            match step {
                Some(step) => engine.begin_shadow(step, shadow, host),
                None => engine.finish(),
            }
        })?;
        Ok((begin.elapsed().as_secs_f64(), steps))
    };
    let begin = Instant::now();
    let unmeasured = if attempt.new { once().map(|_| ()) } else { Ok(()) };
    match unmeasured.and_then(|()| once()) {
        Ok((seconds, steps)) => Ok(Some(Candidate { seconds, steps, spent: begin.elapsed().as_secs_f64() })),
        Err(error) if matches!(error.outcome, Outcome::Lost | Outcome::Aborted) => Err(error),
        Err(error) => {
            log::debug!("a trial of {} nodes came to nothing: {error}", attempt.trial.count);
            Ok(None)
        }
    }
}
