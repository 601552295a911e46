//! GGUF: what a model's file says about itself before its weights begin.
//!
//! The format is ggml's `gguf.h`; versions 2 and 3, little-endian. The file is input that nobody vouched for: nothing is
//! allocated by a number that stands in it, every length is compared with the file's, and what is kept points into the
//! bytes that were given.

mod cursor;
#[cfg(test)]
mod gguf_tests;
pub mod layout;
#[cfg(test)]
mod layout_tests;
#[cfg(test)]
pub mod testing;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Type;
use cursor::{Cursor, Kind};

/// Why the bytes are no model's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The given beginning of the file ends inside its description; at least `needed` bytes are.
    #[error("the description of the model goes on for at least {needed} bytes")]
    Short {
        /// Bytes from the file's begin.
        needed: u64,
    },
    /// The file itself ends too early.
    #[error("the file has {length} bytes and ends inside {inside}; it is incomplete")]
    Truncated {
        /// Bytes of the file.
        length: u64,
        /// What lies across its end.
        inside: String,
    },
    /// Another kind of file.
    #[error("it does not begin with 'GGUF'")]
    NotGguf,
    /// A version that is not read.
    #[error("it has GGUF version {0}; versions 2 and 3 in little-endian order are read")]
    Version(u32),
    /// A number in it cannot be right.
    #[error("{what}: {why}")]
    Malformed {
        /// The key or the tensor.
        what: String,
        /// The number and its limit.
        why: String,
    },
}

fn malformed(what: impl Into<String>, why: impl Into<String>) -> Error {
    Error::Malformed { what: what.into(), why: why.into() }
}

/// A value of the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value<'a> {
    /// One number or a row of them, as they lie in the file.
    Numbers(Kind, &'a [u8]),
    /// A text, probably UTF-8.
    Text(&'a [u8]),
    /// So many texts; none of them says anything about shapes.
    Texts(u64),
}

/// One tensor that the file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight<'a> {
    /// Its name, such as `blk.0.ffn_down.weight`.
    pub name: &'a str,
    /// Its type.
    pub ty: Type,
    /// Elements in each dimension; their product fits an i64.
    pub ne: [i64; 4],
}

impl Weight<'_> {
    /// Bytes in the file.
    pub fn bytes(&self) -> u64 {
        // The row is whole blocks, and `weight` checked that the product fits.
        self.ne.iter().product::<i64>() as u64 / self.ty.block() * self.ty.bytes()
    }
}

/// The description of a model: its metadata and its tensors, without the weights.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gguf<'a> {
    values: BTreeMap<&'a str, Value<'a>>,
    /// Where in `weights` a name is.
    names: BTreeMap<&'a str, usize>,
    /// The tensors in the order of the file.
    pub weights: Vec<Weight<'a>>,
}

impl<'a> Gguf<'a> {
    /// Reads the description from the first bytes of a file that has `length` bytes.
    ///
    /// # Errors
    /// [`Error::Short`] when more of the file is needed, which cannot be when all of it was given; else why it is refused.
    pub fn parse(bytes: &'a [u8], length: u64) -> Result<Gguf<'a>, Error> {
        let mut cursor = Cursor::new(bytes, length);
        cursor.inside("its first bytes");
        if cursor.take(4)? != b"GGUF" {
            return Err(Error::NotGguf);
        }
        let version = cursor.u32()?;
        if !matches!(version, 2 | 3) {
            return Err(Error::Version(version));
        }
        let (weights, values) = (cursor.u64()?, cursor.u64()?);
        let mut gguf = Gguf::default();
        for _ in 0..values {
            cursor.inside("its metadata");
            let key = cursor.name("a key of the metadata")?;
            let value = cursor.value(key)?;
            if gguf.values.insert(key, value).is_some() {
                return Err(malformed(format!("key '{key}'"), "it is there twice"));
            }
        }
        let mut ends = Vec::new();
        for _ in 0..weights {
            cursor.inside("its list of tensors");
            let (weight, offset) = weight(&mut cursor)?;
            if gguf.names.insert(weight.name, gguf.weights.len()).is_some() {
                return Err(malformed(format!("tensor '{}'", weight.name), "it is there twice"));
            }
            ends.push(offset.checked_add(weight.bytes()));
            gguf.weights.push(weight);
        }
        gguf.check_ends(cursor.at(), &ends, length)?;
        Ok(gguf)
    }

    /// Whether every tensor lies within the file; `ends` are relative to the first byte of the weights.
    fn check_ends(&self, described: u64, ends: &[Option<u64>], length: u64) -> Result<(), Error> {
        const ALIGNMENT: &str = "general.alignment";
        let alignment = self.number(ALIGNMENT).unwrap_or(32);
        if !alignment.is_power_of_two() || alignment > u64::from(u32::MAX) {
            return Err(malformed(ALIGNMENT, format!("{alignment} is not a power of two below 2^32")));
        }
        // `described` is at most the length of a slice, so the sum fits.
        let begin = described.next_multiple_of(alignment);
        for (weight, end) in self.weights.iter().zip(ends) {
            if end.and_then(|end| end.checked_add(begin)).is_none_or(|end| end > length) {
                return Err(Error::Truncated { length, inside: format!("tensor '{}'", weight.name) });
            }
        }
        Ok(())
    }

    /// The text under a key.
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        match self.values.get(key)? {
            Value::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        }
    }

    /// The whole number under a key, if there is one and it is not negative.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.numbers(key).filter(|all| all.len() == 1)?.first().copied()
    }

    /// The whole numbers under a key: one, or those of an array. Truth values are 0 and 1.
    pub fn numbers(&self, key: &str) -> Option<Vec<u64>> {
        match self.values.get(key)? {
            Value::Numbers(kind, bytes) => kind.numbers(bytes),
            _ => None,
        }
    }

    /// How many texts or numbers the array under a key has.
    pub fn count(&self, key: &str) -> Option<u64> {
        match self.values.get(key)? {
            Value::Numbers(kind, bytes) => Some(bytes.len() as u64 / kind.size()),
            Value::Texts(count) => Some(*count),
            Value::Text(_) => None,
        }
    }

    /// The tensor of a name.
    pub fn weight(&self, name: &str) -> Option<&Weight<'a>> {
        self.weights.get(*self.names.get(name)?)
    }
}

/// One entry of the list of tensors, and where its bytes begin.
fn weight<'a>(cursor: &mut Cursor<'a>) -> Result<(Weight<'a>, u64), Error> {
    let name = cursor.name("a tensor's name")?;
    let wrong = |why: String| Err(malformed(format!("tensor '{name}'"), why));
    let dimensions = cursor.u32()?;
    if dimensions > 4 {
        return wrong(format!("it has {dimensions} dimensions, more than 4"));
    }
    let mut ne = [1_i64; 4];
    let mut elements = Some(1_i64);
    for n in ne.iter_mut().take(dimensions as usize) {
        let raw = cursor.u64()?;
        elements = i64::try_from(raw).ok().and_then(|raw| {
            *n = raw;
            elements?.checked_mul(raw)
        });
    }
    let code = cursor.u32()?;
    let Some(ty) = type_of(code) else { return wrong(format!("its type {code} is none that ggml stores")) };
    let bytes = |elements: i64| (elements as u64 / ty.block()).checked_mul(ty.bytes());
    if elements.and_then(bytes).is_none() {
        return wrong(format!("{ne:?} elements are more than there can be"));
    }
    if !(ne[0] as u64).is_multiple_of(ty.block()) {
        return wrong(format!(
            "its rows have {} elements, not a multiple of {} as {} needs",
            ne[0],
            ty.block(),
            ty.name()
        ));
    }
    Ok((Weight { name, ty, ne }, cursor.u64()?))
}

/// The type that `enum ggml_type` has at a number. The numbers are part of the file format, so ggml never changes them.
fn type_of(code: u32) -> Option<Type> {
    use Type::*;
    const FIRST: [Type; 4] = [F32, F16, Q4_0, Q4_1];
    const NEXT: [Type; 9] = [Q5_0, Q5_1, Q8_0, Q8_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K];
    const THEN: [Type; 15] =
        [IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ4_NL, IQ3_S, IQ2_S, IQ4_XS, I8, I16, I32, I64, F64, IQ1_M, BF16];
    const LAST: [Type; 4] = [MXFP4, NVFP4, Q1_0, Q2_0];
    let at = |list: &'static [Type], first: u32| list.get(code.checked_sub(first)? as usize).copied();
    match code {
        0..=3 => at(&FIRST, 0),
        6..=14 => at(&NEXT, 6),
        16..=30 => at(&THEN, 16),
        34..=35 => at(&[TQ1_0, TQ2_0], 34),
        39..=42 => at(&LAST, 39),
        _ => None,
    }
}
