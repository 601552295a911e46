//! The outcomes as Markdown.

use crate::harness::{ANSWER, Outcome};
use ggml_tri::plan::Objective;
use std::fmt::Write;

/// The middle of some numbers, and the largest.
fn middle_and_most(mut numbers: Vec<f64>) -> (f64, f64) {
    numbers.sort_by(f64::total_cmp);
    (numbers.get(numbers.len() / 2).copied().unwrap_or(0.0), numbers.last().copied().unwrap_or(0.0))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn words(widths: &[u64]) -> String {
    widths.iter().map(u64::to_string).collect::<Vec<_>>().join(" and ")
}

fn held(value: f64, limit: f64) -> &'static str {
    if value <= limit { "yes" } else { "**no**" }
}

/// A graph that was never recovered counts as one more than were watched.
fn recoveries(outcomes: &[&Outcome]) -> Vec<f64> {
    outcomes.iter().map(|o| o.recovery.map_or(f64::INFINITY, |n| n as f64)).collect()
}

fn graphs(n: f64) -> String {
    if n.is_finite() { format!("{n}") } else { "never".to_owned() }
}

fn promises(outcomes: &[&Outcome]) -> String {
    let of = |f: fn(&Outcome) -> f64| middle_and_most(outcomes.iter().map(|o| f(o)).collect());
    let count =
        |f: &dyn Fn(&Outcome) -> bool| format!("{} of {}", outcomes.iter().filter(|o| f(o)).count(), outcomes.len());
    let (regret, worst) = of(|o| o.regret);
    let (slow_middle, slow) = of(|o| o.slowdown);
    let (learn_middle, learn) = of(|o| o.learning);
    let (restart_middle, restart) = of(|o| o.restart);
    let (recovery_middle, recovery) = middle_and_most(recoveries(outcomes));
    let limit = ANSWER as f64;
    let rows = [
        ("above the best static plan, median", "3 %", percent(regret), held(regret, 0.03), String::new()),
        ("the same, worst", "8 %", percent(worst), held(worst, 0.08), count(&|o| o.regret <= 0.08)),
        (
            "slower than the best single engine, worst",
            "1 %",
            format!("{} (median {})", percent(slow), percent(slow_middle)),
            held(slow, 0.01),
            count(&|o| o.slowdown <= 0.01),
        ),
        (
            "cost of learning, worst",
            "5 %",
            format!("{} (median {})", percent(learn), percent(learn_middle)),
            held(learn, 0.05),
            count(&|o| o.learning <= 0.05),
        ),
        (
            "graphs until within 5 % again, worst",
            "64",
            format!("{} (median {})", graphs(recovery), graphs(recovery_middle)),
            held(recovery, limit),
            count(&|o| o.recovery.is_some_and(|n| n <= ANSWER)),
        ),
        (
            "first plan after a restart above the best, worst",
            "5 %",
            format!("{} (median {})", percent(restart), percent(restart_middle)),
            held(restart, 0.05),
            count(&|o| o.restart <= 0.05),
        ),
    ];
    let mut text =
        "| simulated | promised at most | result | holds | cases in which it holds |\n|---|---|---|---|---|\n"
            .to_owned();
    for (what, promised, result, holds, cases) in rows {
        let _ = writeln!(text, "| {what} | {promised} | {result} | {holds} | {cases} |");
    }
    text
}

/// Which models and widths the outcomes are of.
fn range(outcomes: &[&Outcome]) -> String {
    let mut models: Vec<&str> = Vec::new();
    let mut widths: Vec<&[u64]> = Vec::new();
    for case in outcomes.iter().map(|o| &o.case) {
        if !models.contains(&case.model.as_str()) {
            models.push(&case.model);
        }
        if !widths.contains(&case.widths.as_slice()) {
            widths.push(&case.widths);
        }
    }
    let widths: Vec<_> = widths.into_iter().map(words).collect();
    format!("Models: {}. Tokens in a pass: {} (in turn).", models.join(", "), widths.join(", "))
}

/// The promises for each objective.
fn by_objective(outcomes: &[&Outcome]) -> String {
    let of = |objective: Objective| -> Vec<&Outcome> {
        outcomes.iter().copied().filter(|o| o.case.objective == objective).collect()
    };
    let each = [Objective::Speed, Objective::Energy].map(|o| format!("Objective {o:?}:\n\n{}\n", promises(&of(o))));
    each.concat()
}

fn each_chip(outcomes: &[&Outcome]) -> String {
    let mut text =
        "| simulated chip | cases | regret, median | worst | to win, median | most | slower than single, worst \
                    | learning, worst | recovery, worst | restart, worst |\n|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    let mut names: Vec<&str> = Vec::new();
    for o in outcomes {
        if !names.contains(&o.case.chip.as_str()) {
            names.push(&o.case.chip);
        }
    }
    for name in names {
        let of: Vec<&Outcome> = outcomes.iter().copied().filter(|o| o.case.chip == name).collect();
        let both = |f: fn(&Outcome) -> f64| middle_and_most(of.iter().map(|o| f(o)).collect());
        let ((regret, worst), (room, most)) = (both(|o| o.regret), both(|o| o.room));
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            of.len(),
            percent(regret),
            percent(worst),
            percent(room),
            percent(most),
            percent(both(|o| o.slowdown).1),
            percent(both(|o| o.learning).1),
            graphs(middle_and_most(recoveries(&of)).1),
            percent(both(|o| o.restart).1),
        );
    }
    text
}

fn worst_cases(outcomes: &[&Outcome]) -> String {
    let mut by_regret = outcomes.to_vec();
    by_regret.sort_by(|a, b| b.regret.total_cmp(&a.regret));
    let mut text = "| simulated chip | model | tokens in a pass | objective | regret | to win | against single | recovery | restart |\n\
                    |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for o in by_regret.iter().take(15) {
        let case = &o.case;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:?} | {} | {} | {} | {} | {} |",
            case.chip,
            case.model,
            words(&case.widths),
            case.objective,
            percent(o.regret),
            percent(o.room),
            percent(o.slowdown),
            graphs(o.recovery.map_or(f64::INFINITY, |n| n as f64)),
            percent(o.restart),
        );
    }
    text
}

/// The whole document.
pub fn document(command: &str, catalogue: &[Outcome], random: &[Outcome]) -> String {
    let (c, r): (Vec<_>, Vec<_>) = (catalogue.iter().collect(), random.iter().collect());
    format!(
        "# Simulated: the planner against the best static plan\n\n\
         **Every number here is simulated.** No chip was measured: `src/sim` plays chips in virtual time, from the figures of \
         `src/chip/catalog/`, most of which are guesses. The table says how well the planner learns a chip that it does not know, \
         not how fast any chip is.\n\n\
         Command: `{command}`. The same command gives the same table.\n\n\
         Each case is one chip, model, width and objective. A fresh planner, told figures that are off by up to half, sees \
         512 graphs with noise, in sequences of 16; then it is restarted with what it learned; then the engine that does most \
         becomes 30 % slower. *Regret* is what its plan costs above the best static plan, which dynamic programming over the truth \
         without noise finds; *to win* is what the best single engine costs above that. Cost is seconds, or joules \
         for the objective Energy. *Learning* is the time of trials, and of plans worse than the first, as a share of \
         the first 512 graphs. *Recovery* is the number of graphs after the change from which on the plan stays \
         within 5 % of the new best; `never` means not within 192.\n\n\
         ## Simulated chips of the catalogue\n\n{}\n\n{}\n{}\n\
         ## Random simulated chips, held out\n\n\
         Drawn by seeds that were not looked at while the planner was tuned. {}\n\n{}\n{}\n\
         ## The worst simulated cases\n\nCatalogue:\n\n{}\nRandom chips:\n\n{}",
        range(&c),
        by_objective(&c),
        each_chip(&c),
        range(&r),
        by_objective(&r),
        each_chip(&r),
        worst_cases(&c),
        worst_cases(&r),
    )
}
