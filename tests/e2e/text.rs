//! Placement never changes what is said: TRI0's text and numbers are those of the stock CPU backend.

use std::io::Write;

use crate::host::{Arm, Setup, report, run};
use crate::http::Server;
use crate::prompts::{PROMPTS, PROSE};

const TOKENS: usize = 64;

fn texts(setup: &Setup, model: &str, arm: Arm) -> Vec<Vec<i64>> {
    let mut command = setup.tool("llama-server", arm);
    command.arg("-m").arg(setup.model(model)).args(["-t", "2", "-c", "512", "-np", "1"]);
    let server = Server::start(command);
    PROMPTS.iter().map(|prompt| server.greedy(prompt, TOKENS)).collect()
}

fn greedy_text_is_stock(test: &str, model: &str) {
    let Some(setup) = Setup::find(test, &[model]) else { return };
    let stock = texts(&setup, model, Arm::Stock);
    let tri = texts(&setup, model, Arm::Tri);
    for ((prompt, stock), tri) in PROMPTS.iter().zip(&stock).zip(&tri) {
        let same = stock.iter().zip(tri).take_while(|(a, b)| a == b).count();
        assert_eq!(stock, tri, "{model}, {prompt:?}: the first {same} of {TOKENS} tokens agree");
    }
    // Equal lists prove nothing if a broken server repeats one answer for everything.
    let distinct: std::collections::HashSet<_> = tri.iter().collect();
    assert_eq!(distinct.len(), PROMPTS.len(), "different prompts got the same answer");
    report(test, &format!("{} prompts x {TOKENS} tokens are those of the stock CPU backend", PROMPTS.len()));
}

#[test]
fn smollm2_says_what_stock_says() {
    greedy_text_is_stock("text::smollm2_says_what_stock_says", "smollm2.gguf");
}

#[test]
fn gemma_says_what_stock_says() {
    greedy_text_is_stock("text::gemma_says_what_stock_says", "gemma.gguf");
}

/// What llama-perplexity prints: the running value after each chunk, and the estimate with its error.
fn perplexity(setup: &Setup, model: &str, arm: Arm, more: &[&str]) -> Vec<String> {
    let mut prose = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    prose.write_all(PROSE.as_bytes()).expect("a temporary file can be written");
    let mut command = setup.tool("llama-perplexity", arm);
    command.arg("-m").arg(setup.model(model)).arg("-f").arg(prose.path()).args(["-t", "2", "-c", "512"]).args(more);
    let outcome = run(&mut command).success();
    let said = outcome.said();
    // Log lines begin with a time; what follows "[1]" and "Final estimate" is the measurement.
    let chunks = said.lines().filter_map(|line| line.find("[1]").map(|at| line[at..].trim().to_owned()));
    let last = said.lines().filter_map(|line| line.find("Final estimate").map(|at| line[at..].trim().to_owned()));
    let numbers: Vec<_> = chunks.chain(last).collect();
    assert_eq!(numbers.len(), 2, "one line of chunks and one estimate are expected: {outcome:#?}");
    numbers
}

fn perplexity_is_stock(test: &str, model: &str) {
    let Some(setup) = Setup::find(test, &[model]) else { return };
    let mut seen = Vec::new();
    for cache in [&[] as &[&str], &["-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on"]] {
        let stock = perplexity(&setup, model, Arm::Stock, cache);
        let tri = perplexity(&setup, model, Arm::Tri, cache);
        assert_eq!(stock, tri, "{model} {cache:?}");
        report(test, &format!("{cache:?} {}", tri[1]));
        seen.push(tri);
    }
    assert_ne!(seen[0], seen[1], "a quantised KV cache moves the digits, so equal digits are no accident");
}

#[test]
fn smollm2_has_stock_perplexity() {
    perplexity_is_stock("text::smollm2_has_stock_perplexity", "smollm2.gguf");
}

#[test]
fn gemma_has_stock_perplexity() {
    perplexity_is_stock("text::gemma_has_stock_perplexity", "gemma.gguf");
}
