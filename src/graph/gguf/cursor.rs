//! A place in the bytes of a GGUF file that never goes past what is there.

use super::{Error, Value, malformed};

/// The numbers that GGUF stores, by their codes in `enum gguf_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    U64,
    I64,
    F64,
}

impl Kind {
    fn of(code: u32) -> Option<Kind> {
        use Kind::*;
        [U8, I8, U16, I16, U32, I32, F32, Bool].get(code as usize).copied().or(match code {
            10 => Some(U64),
            11 => Some(I64),
            12 => Some(F64),
            _ => None,
        })
    }

    /// Bytes of one number.
    pub fn size(self) -> u64 {
        match self {
            Kind::U8 | Kind::I8 | Kind::Bool => 1,
            Kind::U16 | Kind::I16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 => 8,
        }
    }

    /// The numbers in the bytes; `None` if one is negative or a fraction.
    pub fn numbers(self, bytes: &[u8]) -> Option<Vec<u64>> {
        let signed = matches!(self, Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64);
        let number = |bytes: &[u8]| match self {
            Kind::F32 | Kind::F64 => None,
            _ if signed && bytes.last().is_some_and(|b| b >> 7 == 1) => None,
            _ => Some(bytes.iter().rev().fold(0, |all, b| all << 8 | u64::from(*b))),
        };
        bytes.chunks_exact(self.size() as usize).map(number).collect()
    }
}

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// The bytes and a place in them.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes of the file, of which `bytes` is the beginning.
    length: u64,
    inside: &'static str,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], length: u64) -> Cursor<'a> {
        Cursor { bytes, at: 0, length: length.max(bytes.len() as u64), inside: "" }
    }

    /// Says what is being read, for messages.
    pub fn inside(&mut self, what: &'static str) {
        self.inside = what;
    }

    /// Bytes before the place.
    pub fn at(&self) -> u64 {
        self.at as u64
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: u64) -> Result<&'a [u8], Error> {
        let end = self.end(count)?;
        let part = usize::try_from(end).ok().and_then(|end| self.bytes.get(self.at..end));
        let part = part.ok_or(Error::Short { needed: end })?;
        self.at += part.len();
        Ok(part)
    }

    /// Where the next `count` bytes end, if the file has them.
    fn end(&self, count: u64) -> Result<u64, Error> {
        let end = self.at().checked_add(count).filter(|end| *end <= self.length);
        end.ok_or_else(|| Error::Truncated { length: self.length, inside: self.inside.to_owned() })
    }

    /// The next `count` things of at least `size` bytes, if the file can have them: so that a wrong count is found at once.
    fn room_for(&self, count: u64, size: u64) -> Result<u64, Error> {
        self.end(count.saturating_mul(size)).map(|_| count * size)
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(self.take(4)?.iter().rev().fold(0, |all, b| all << 8 | u32::from(*b)))
    }

    pub fn u64(&mut self) -> Result<u64, Error> {
        Ok(self.take(8)?.iter().rev().fold(0, |all, b| all << 8 | u64::from(*b)))
    }

    fn text(&mut self) -> Result<&'a [u8], Error> {
        let count = self.u64()?;
        self.take(count)
    }

    /// A text that names something.
    pub fn name(&mut self, what: &str) -> Result<&'a str, Error> {
        let at = self.at;
        let bytes = self.text()?;
        match std::str::from_utf8(bytes) {
            Ok(name) if !name.is_empty() => Ok(name),
            _ => Err(malformed(what, format!("at byte {at} is no name"))),
        }
    }

    /// The value that follows its key.
    pub fn value(&mut self, key: &str) -> Result<Value<'a>, Error> {
        let unknown = |code: u32| malformed(format!("key '{key}'"), format!("its type {code} is none of GGUF's"));
        match self.u32()? {
            TEXT => Ok(Value::Text(self.text()?)),
            ARRAY => match (self.u32()?, self.u64()?) {
                (TEXT, count) => {
                    self.room_for(count, 8)?;
                    for _ in 0..count {
                        self.text()?;
                    }
                    Ok(Value::Texts(count))
                }
                (code, count) => {
                    let kind = Kind::of(code).ok_or_else(|| unknown(code))?;
                    let bytes = self.room_for(count, kind.size())?;
                    Ok(Value::Numbers(kind, self.take(bytes)?))
                }
            },
            code => {
                let kind = Kind::of(code).ok_or_else(|| unknown(code))?;
                Ok(Value::Numbers(kind, self.take(kind.size())?))
            }
        }
    }
}
