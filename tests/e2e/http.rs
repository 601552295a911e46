//! A running llama-server and its HTTP interface.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::host::{PATIENCE, free_port};

/// A running llama-server; dropped, it is killed.
pub struct Server {
    pub child: Child,
    port: u16,
    agent: ureq::Agent,
    log: tempfile::NamedTempFile,
}

impl Server {
    /// Starts `llama-server` (or a launcher of it, with its arguments so far) and waits until it answers.
    pub fn start(mut command: Command) -> Server {
        let port = free_port();
        let log = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        let file = || File::options().append(true).open(log.path()).expect("the log can be opened");
        command.args(["--port", &port.to_string()]).stdin(Stdio::null()).stdout(file()).stderr(file());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
        let mut server = Server { child, port, agent: config.build().into(), log };
        let end = Instant::now() + PATIENCE;
        while !server.healthy() {
            if let Some(status) = server.child.try_wait().expect("a child can be asked for its status") {
                panic!("{command:?} ended before it answered: {status}\n{}", server.log());
            }
            assert!(Instant::now() < end, "{command:?} does not answer\n{}", server.log());
            thread::sleep(Duration::from_millis(50));
        }
        server
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Whether `/health` says that the model is loaded.
    pub fn healthy(&self) -> bool {
        self.agent.get(self.url("/health")).call().is_ok_and(|answer| answer.status() == 200)
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log.path()).expect("the log can be read")).into_owned()
    }

    /// The JSON answer to a GET request.
    pub fn get(&self, path: &str) -> Value {
        let mut answer = self.agent.get(self.url(path)).call().expect("the server answers");
        answer.body_mut().read_json().unwrap_or_else(|error| panic!("{path} was answered with no JSON: {error}"))
    }

    /// Posts a JSON request without waiting; the answer is lost when the connection is dropped.
    pub fn begin(&self, path: &str, request: &Value) -> TcpStream {
        let body = request.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
            .expect("the server takes a request");
        stream
    }

    /// Posts a JSON request; the HTTP status and the JSON answer, or nothing when the connection broke.
    pub fn try_post(&self, path: &str, request: &Value) -> Option<(u16, Value)> {
        let mut answer = self.agent.post(self.url(path)).send_json(request).ok()?;
        Some((answer.status().as_u16(), answer.body_mut().read_json().ok()?))
    }

    /// Posts a JSON request that must succeed.
    pub fn post(&self, path: &str, request: &Value) -> Value {
        match self.try_post(path, request) {
            Some((200, answer)) => answer,
            other => panic!("{path} {request} was answered by {other:?}\n{}", self.log()),
        }
    }

    /// The ids of the tokens that greedy decoding appends to a prompt.
    pub fn greedy(&self, prompt: &str, count: usize) -> Vec<i64> {
        let answer = self.post("/completion", &greedy_request(prompt, count));
        let tokens = answer["tokens"].as_array().unwrap_or_else(|| panic!("no tokens in {answer}"));
        let ids: Vec<_> = tokens.iter().map(|token| token.as_i64().expect("a token is a number")).collect();
        assert_eq!(ids.len(), count, "{answer}");
        ids
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has already ended is what some tests want, so both results are of no interest here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A `/completion` request whose answer depends on the logits alone.
pub fn greedy_request(prompt: &str, count: usize) -> Value {
    serde_json::json!({
        "prompt": prompt, "n_predict": count, "temperature": 0, "ignore_eos": true, "cache_prompt": false,
        "return_tokens": true,
    })
}
