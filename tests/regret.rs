//! A small version of `examples/regret`: two simulated chips, one model. The whole table is docs/simulated.md.

#[path = "../examples/regret/harness.rs"]
mod harness;

use ggml_tri::chip::catalog;
use ggml_tri::graph::shapes::Model;
use ggml_tri::plan::Objective;
use ggml_tri::sim::Truth;
use harness::{ANSWER, Case, LEARNING, live};

#[test]
fn the_planner_does_no_harm_on_two_simulated_chips() {
    let chips = ["Max+ 395", "EPYC"].map(|name| Truth::of(catalog::find(name).unwrap()));
    for chip in &chips {
        for widths in [&[1][..], &[8], &[512]] {
            let o = live(chip, &Model::llama_1b(), widths, Objective::Speed);
            let Case { chip, model, widths, objective } = &o.case;
            let words = format!("simulated {chip}, {model}, {widths:?}, {objective:?}, {LEARNING} graphs: {o:?}");
            assert!(o.regret <= 0.08 && o.slowdown <= 0.01 && o.learning <= 0.05, "{words}");
            assert!(o.room >= 0.0 && o.restart <= 0.05, "{words}");
            // A chip with nothing but a CPU has nothing to change to.
            assert!(chip != "EPYC, 2 cores" || o.recovery.is_some_and(|n| n <= ANSWER), "{words}");
        }
    }
}
