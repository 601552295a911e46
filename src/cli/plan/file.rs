//! The beginning of a model's file, as much of it as describes the model.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ggml_tri::graph::gguf::layout::{self, Described};
use ggml_tri::graph::gguf::{Error, Gguf};

use crate::stop::Stop;

/// What is read at first; the description of most models, which is mostly their vocabulary, has one to twenty megabytes.
const FIRST: u64 = 1 << 20;
/// The most that is read; more than this describes no model.
const MOST: u64 = 256 << 20;

/// A model's file.
#[derive(Debug)]
pub struct Model {
    /// Its shapes and what is said of them.
    pub described: Described,
    /// What it says it is.
    pub architecture: String,
    /// Elements of all tensors.
    pub elements: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
}

/// Reads what a file says of its model.
///
/// # Errors
/// The file cannot be read, is none of a model, or its model cannot be planned.
pub fn read(path: &Path) -> Result<Model, Stop> {
    let wrong = |why: String| Stop::failed(format!("'{}' cannot be planned: {why}.", path.display()));
    let refused = |sentence: String| Stop::failed(format!("'{}': {sentence}", path.display()));
    let file = File::open(path).map_err(|e| wrong(format!("it cannot be opened ({e})")))?;
    let about = file.metadata().map_err(|e| wrong(format!("it cannot be examined ({e})")))?;
    if !about.is_file() {
        return Err(wrong("it is not a file".to_owned()));
    }
    let (length, mut bytes, mut wanted) = (about.len(), Vec::new(), FIRST);
    loop {
        let more = wanted.min(length).saturating_sub(bytes.len() as u64);
        let read = (&file).take(more).read_to_end(&mut bytes).map_err(|e| wrong(format!("it cannot be read ({e})")))?;
        if (read as u64) < more {
            return Err(wrong("it became shorter while it was read".to_owned()));
        }
        match Gguf::parse(&bytes, length) {
            Ok(gguf) => return model(&gguf).map_err(refused),
            Err(Error::Short { needed }) if needed <= MOST => wanted = needed.max(4 * wanted).min(MOST),
            Err(e) => return Err(wrong(e.to_string())),
        }
    }
}

fn model(gguf: &Gguf) -> Result<Model, String> {
    if let Some(parts @ 2..) = gguf.number("split.count") {
        let part = gguf.number("split.no").map_or("?".to_owned(), |no| (no + 1).to_string());
        return Err(format!("It is part {part} of {parts}: join them with 'llama-gguf-split --merge'."));
    }
    let described = layout::describe(gguf)?;
    let sum = |of: fn(&ggml_tri::graph::gguf::Weight) -> u64| gguf.weights.iter().map(of).fold(0, u64::saturating_add);
    Ok(Model {
        described,
        architecture: gguf.text("general.architecture").unwrap_or_default().into_owned(),
        elements: sum(|w| w.ne.iter().product::<i64>() as u64),
        bytes: sum(|w| w.bytes()),
    })
}
