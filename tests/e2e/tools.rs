//! The other llama.cpp tools on TRI0: importance matrix, speculative decoding, RPC.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::host::{Arm, Outcome, Setup, free_port, report, run};
use crate::prompts::PROSE;

/// The tensor data and keys of an importance matrix, without the name of the text it was made from.
fn imatrix(setup: &Setup, arm: Arm, text: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let out = folder.path().join("imatrix.gguf");
    let mut command = setup.tool("llama-imatrix", arm);
    command.arg("-m").arg(setup.model("smollm2.gguf")).arg("-f").arg(text).arg("-o").arg(&out);
    let outcome = run(command.args(["-t", "2", "-c", "256", "--chunks", "3", "--no-ppl"])).success();
    fs::read(&out).unwrap_or_else(|error| panic!("no importance matrix: {error}\n{outcome:#?}"))
}

#[test]
fn an_importance_matrix_is_stock_byte_for_byte() {
    // llama-imatrix sees every intermediate tensor through an eval callback.
    let Some(setup) = Setup::find("tools::an_importance_matrix_is_stock_byte_for_byte", &["smollm2.gguf"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let text = folder.path().join("text.txt");
    fs::write(&text, PROSE).expect("a temporary file can be written");
    let tri = imatrix(&setup, Arm::Tri, &text);
    assert!(tri == imatrix(&setup, Arm::Stock, &text), "the two files differ");
    // A file of the same name and size with other words in it: the bytes must depend on what was computed.
    let other: String = PROSE.split('\n').rev().collect::<Vec<_>>().join("\n");
    fs::write(&text, other).expect("a temporary file can be written");
    assert!(tri != imatrix(&setup, Arm::Tri, &text), "the matrix does not depend on the text");
}

/// What a command wrote to its standard output, which for these tools is the text.
fn text_of(outcome: &Outcome) -> String {
    let text = outcome.stdout.trim().to_owned();
    assert!(text.len() > 80, "too little text: {outcome:#?}");
    text
}

#[test]
fn speculative_decoding_says_what_stock_says() {
    let Some(setup) = Setup::find("tools::speculative_decoding_says_what_stock_says", &["smollm2.gguf"]) else {
        return;
    };
    let model = setup.model("smollm2.gguf");
    let speculate = |arm: Arm, prompt: &str| {
        let mut command = setup.tool("llama-speculative-simple", arm);
        command.arg("-m").arg(&model).arg("-md").arg(&model).args(["-p", prompt, "-n", "64", "--temp", "0"]);
        command.args(["-c", "512", "-t", "2", "--spec-type", "draft-simple", "--spec-draft-n-max", "5"]);
        let outcome = run(command.args(["--spec-draft-device", arm.device()])).success();
        let accepted = outcome.lines_with("n_accept").pop().unwrap_or_else(|| panic!("no count in {outcome:#?}"));
        let accepted: u32 = accepted.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("n_accept is a number");
        (text_of(&outcome), accepted)
    };
    let (text, accepted) = speculate(Arm::Tri, "The captain looked at the clouds and");
    assert!(accepted >= 32, "a model that drafts for itself is right most of the time, not {accepted} times");
    assert_eq!((text, accepted), speculate(Arm::Stock, "The captain looked at the clouds and"));
    report("tools::speculative_decoding_says_what_stock_says", &format!("{accepted} drafted tokens accepted"));
}

/// A running ggml-rpc-server; dropped, it is killed.
struct RpcServer {
    child: Child,
    endpoint: String,
}

impl RpcServer {
    fn start(setup: &Setup, arm: Arm, device: &str) -> RpcServer {
        let port = free_port();
        let mut command = setup.bare("ggml-rpc-server", arm);
        command.args(["-d", device, "-t", "2", "-p", &port.to_string()]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ggml-rpc-server starts");
        let endpoint = format!("127.0.0.1:{port}");
        while TcpStream::connect(&endpoint).is_err() {
            let ended = child.try_wait().expect("a child can be asked for its status");
            assert!(ended.is_none(), "ggml-rpc-server -d {device} ended: {ended:?}");
            thread::sleep(Duration::from_millis(50));
        }
        RpcServer { child, endpoint }
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked for its status").is_none()
    }
}

impl Drop for RpcServer {
    fn drop(&mut self) {
        // One that has already ended leaves nothing to clean up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_remote_client_gets_the_text_of_a_remote_cpu() {
    let Some(setup) = Setup::find("tools::a_remote_client_gets_the_text_of_a_remote_cpu", &["smollm2.gguf"]) else {
        return;
    };
    let remote = |arm: Arm, device: &str| {
        let mut server = RpcServer::start(&setup, arm, device);
        let mut client = setup.bare("llama-completion", Arm::Stock);
        client.arg("-m").arg(setup.model("smollm2.gguf")).args(["--rpc", &server.endpoint, "-no-cnv", "-v"]);
        client.args(["-p", "The oldest bridge of the city", "-n", "64", "--temp", "0", "-c", "512", "-t", "2"]);
        let outcome = run(&mut client).success();
        assert!(server.is_running(), "the server died under its client");
        // Without this line the client computed everything itself.
        let buffers = outcome.lines_with("model buffer size");
        assert!(buffers.iter().any(|line| line.contains("RPC0")), "nothing was offloaded: {buffers:#?}");
        text_of(&outcome)
    };
    assert_eq!(remote(Arm::Tri, "TRI0"), remote(Arm::Stock, "CPU"));
}
