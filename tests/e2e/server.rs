//! What llama-server can do besides greedy text, done on TRI0.

use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::host::{Arm, Setup, report};
use crate::http::{Server, greedy_request};

fn llama_server(setup: &Setup, arm: Arm, more: &[&str]) -> Command {
    let mut command = setup.tool("llama-server", arm);
    command.arg("-m").arg(setup.model("smollm2.gguf")).args(["-t", "2"]).args(more);
    command
}

/// Beginnings whose continuation is certain by a wide margin: how many requests share a batch changes the rounding of
/// ggml-cpu, also in stock llama.cpp, and must not be able to change these texts.
const CERTAIN: [&str; 4] = [
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
    "go, go, go, go, go, go, go, go, go, go, go, go,",
    "A B C D E F A B C D E F A B C D E F A B C D E F A B",
    "red green blue red green blue red green blue red green blue red",
];

#[test]
fn four_slots_answer_at_the_same_time() {
    let Some(setup) = Setup::find("server::four_slots_answer_at_the_same_time", &["smollm2.gguf"]) else { return };
    let server = Server::start(llama_server(&setup, Arm::Tri, &["-np", "4", "-c", "1024", "--slots"]));
    let alone: Vec<_> = CERTAIN.iter().map(|prompt| server.greedy(prompt, 32)).collect();
    let together = thread::scope(|scope| {
        let running: Vec<_> = CERTAIN.iter().map(|prompt| scope.spawn(|| server.greedy(prompt, 32))).collect();
        running.into_iter().map(|thread| thread.join().expect("a request was answered")).collect::<Vec<_>>()
    });
    assert_eq!(alone, together, "a slot got the text of another, or a wrong one");
    // A fifth and later requests wait for a slot, and none is lost.
    let request = greedy_request(CERTAIN[0], 200);
    let answers = thread::scope(|scope| {
        let running: Vec<_> = (0..6).map(|_| scope.spawn(|| server.post("/completion", &request))).collect();
        running.into_iter().map(|thread| thread.join().expect("a request was answered")).collect::<Vec<Value>>()
    });
    let slots: std::collections::HashSet<_> = answers.iter().map(|answer| answer["id_slot"].as_i64()).collect();
    assert_eq!(slots.len(), 4, "six long requests at once use all four slots: {slots:?}");
    assert!(server.healthy());
}

#[test]
fn embeddings_are_stock() {
    let Some(setup) = Setup::find("server::embeddings_are_stock", &["smollm2.gguf"]) else { return };
    let embed = |arm| -> Vec<Vec<f64>> {
        let more = ["-np", "1", "-c", "512", "--embeddings", "--pooling", "mean"];
        let server = Server::start(llama_server(&setup, arm, &more));
        ["A ship leaves the harbour.", "Bread needs flour, water, salt and time."]
            .iter()
            .map(|text| {
                let answer = server.post("/v1/embeddings", &json!({ "input": text }));
                let vector = answer["data"][0]["embedding"].as_array().expect("an embedding is a list");
                vector.iter().map(|number| number.as_f64().expect("of numbers")).collect()
            })
            .collect()
    };
    let tri = embed(Arm::Tri);
    assert_eq!(tri[0].len(), 576, "the width of SmolLM2-135M");
    assert_ne!(tri[0], tri[1], "two sentences have two embeddings");
    assert_eq!(tri, embed(Arm::Stock));
}

#[test]
fn a_grammar_binds_the_text() {
    let Some(setup) = Setup::find("server::a_grammar_binds_the_text", &["smollm2.gguf"]) else { return };
    let request = json!({
        "prompt": "Describe one bird as JSON with its name and the number of its legs.\n",
        "temperature": 0, "n_predict": 96, "cache_prompt": false,
        "json_schema": {
            "type": "object",
            "properties": {
                "name": { "type": "string", "maxLength": 24 },
                "legs": { "type": "integer", "minimum": 0, "maximum": 9 },
            },
            "required": ["name", "legs"],
            "additionalProperties": false,
        },
    });
    let answer = |arm| -> Value {
        let server = Server::start(llama_server(&setup, arm, &["-np", "1", "-c", "512"]));
        server.post("/completion", &request)["content"].clone()
    };
    let tri = answer(Arm::Tri);
    let bird: Value = serde_json::from_str(tri.as_str().expect("the content is text")).expect("valid JSON");
    assert!(bird["name"].is_string() && bird["legs"].as_i64().is_some_and(|legs| (0..=9).contains(&legs)), "{bird}");
    assert_eq!(tri, answer(Arm::Stock));
}

#[test]
fn a_shifted_context_goes_on_as_in_stock() {
    let Some(setup) = Setup::find("server::a_shifted_context_goes_on_as_in_stock", &["smollm2.gguf"]) else { return };
    let prompt = "The long walk began at the northern gate, and";
    let walk = |arm| {
        let more = ["-np", "1", "-c", "256", "--context-shift", "--keep", "8"];
        let server = Server::start(llama_server(&setup, arm, &more));
        // More tokens than the context holds: without a shift the server stops early and `greedy` fails.
        let ids = server.greedy(prompt, 400);
        (ids, server.log().matches("context shift").count())
    };
    let (tri, shifts) = walk(Arm::Tri);
    assert!(shifts >= 1, "the log tells of no shift");
    assert_eq!((tri, shifts), walk(Arm::Stock));
    report("server::a_shifted_context_goes_on_as_in_stock", &format!("{shifts} shifts"));
}

#[test]
fn a_lora_adapter_works_as_in_stock() {
    let models = ["smollm2.gguf", "lora.gguf"];
    let Some(setup) = Setup::find("server::a_lora_adapter_works_as_in_stock", &models) else { return };
    let adapter = setup.model("lora.gguf");
    let adapter = adapter.to_str().expect("the path of the adapter is UTF-8");
    let prompt = "In the garden behind the house stood";
    let text = |arm, more: &[&str]| {
        Server::start(llama_server(&setup, arm, &[&["-np", "1", "-c", "512"], more].concat())).greedy(prompt, 64)
    };
    let tri = text(Arm::Tri, &["--lora", adapter]);
    assert_eq!(tri, text(Arm::Stock, &["--lora", adapter]));
    assert_ne!(tri, text(Arm::Tri, &[]), "the adapter changes nothing, so this test shows nothing");
}
