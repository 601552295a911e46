//! The names of what is learned, from what all work of an engine shares to what one class of shapes and widths has for itself.

use crate::engine::EngineKind;
use crate::graph::Type;
use crate::plan::work::{Kind, Work};
use std::fmt;
use std::str::FromStr;

/// Work of one engine that is expected to err by the same factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Who computes.
    pub engine: EngineKind,
    /// What kind of work.
    pub kind: Kind,
    /// Of which type.
    pub ty: Type,
    /// Half the binary logarithm of what the weights or the cache hold: a class spans a factor of 4.
    pub shape: u8,
    /// The width up to 16, where each can have a kernel of its own; above, 16 and the steps of doubling since.
    pub width: u8,
}

impl Key {
    /// The key of a work.
    pub fn of(engine: EngineKind, work: &Work) -> Key {
        let held = match work.kind {
            Kind::Product | Kind::Experts => work.m.saturating_mul(work.k),
            Kind::Attention => work.used.saturating_mul(work.k).saturating_mul(work.depth),
            Kind::Other => work.m,
        };
        let shape = (held.max(1).ilog2() / 2) as u8;
        Key { engine, kind: work.kind, ty: work.ty, shape, width: width_class(work.n) }
    }
}

/// The class of a width: itself up to 16, then one class for each doubling (17..=32 is 17, 33..=64 is 18).
pub fn width_class(n: u64) -> u8 {
    if n <= 16 { n as u8 } else { 12 + (n - 1).ilog2() as u8 + 1 }
}

/// A learned factor; its value is a logarithm, 0 where the chip's figures are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Param {
    /// What a step of the engine costs before its work.
    Launch(EngineKind),
    /// How much less of that there is when the engine was at work in the wave before.
    Relaunch(EngineKind),
    /// What a node costs besides its work.
    Node(EngineKind),
    /// Seconds per byte.
    Memory(EngineKind),
    /// Seconds per operation; `true` for many columns.
    Arithmetic(EngineKind, bool),
    /// A kernel: kind, type, and `true` for many columns.
    Kernel(EngineKind, Kind, Type, bool),
    /// One class of shapes and widths.
    Class(Key),
    /// A class while others work on the same product's other rows; which others, as bits by the order of the engines.
    Beside(Key, u8),
}

impl Param {
    /// How far the chip's figures are expected to be off, as the standard deviation of the logarithm. Guesses: figures of
    /// a data sheet are within a third mostly, launch costs differ by driver, classes differ little from their kernel.
    pub fn doubt(self) -> f64 {
        match self {
            Param::Launch(_) | Param::Relaunch(_) | Param::Node(_) => 0.5,
            Param::Memory(_) | Param::Arithmetic(..) => 0.3,
            Param::Kernel(..) => 0.4,
            Param::Class(_) => 0.2,
            Param::Beside(..) => 0.3,
        }
    }

    /// Whose it is.
    pub fn engine(self) -> EngineKind {
        match self {
            Param::Launch(e) | Param::Relaunch(e) | Param::Node(e) => e,
            Param::Memory(e) | Param::Arithmetic(e, _) => e,
            Param::Kernel(e, ..) | Param::Class(Key { engine: e, .. }) | Param::Beside(Key { engine: e, .. }, _) => e,
        }
    }
}

/// The factor of one of several engines that compute the rows of a product side by side.
pub fn beside(parts: &[(EngineKind, Work)], part: &(EngineKind, Work)) -> Param {
    let bit = |e: EngineKind| ENGINES.iter().position(|x| *x == e).map_or(0, |i| 1 << i);
    let others = parts.iter().filter(|p| p.0 != part.0).map(|p| bit(p.0)).sum();
    Param::Beside(Key::of(part.0, &part.1), others)
}

const ENGINES: [EngineKind; 3] = [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu];
const KINDS: [(Kind, &str); 4] =
    [(Kind::Product, "product"), (Kind::Experts, "experts"), (Kind::Attention, "attention"), (Kind::Other, "other")];

/// The word for a kind of work.
pub fn kind_name(kind: Kind) -> &'static str {
    KINDS.iter().find(|k| k.0 == kind).map_or("other", |k| k.1)
}

fn many_name(many: bool) -> &'static str {
    if many { "many" } else { "few" }
}

/// One line of words, which the profile keeps: `gpu class product q4_K 12 1`.
impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Param::Launch(e) => write!(f, "{} launch", e.name()),
            Param::Relaunch(e) => write!(f, "{} relaunch", e.name()),
            Param::Node(e) => write!(f, "{} node", e.name()),
            Param::Memory(e) => write!(f, "{} memory", e.name()),
            Param::Arithmetic(e, many) => write!(f, "{} arithmetic {}", e.name(), many_name(many)),
            Param::Kernel(e, kind, ty, many) => {
                write!(f, "{} kernel {} {} {}", e.name(), kind_name(kind), ty.name(), many_name(many))
            }
            Param::Class(Key { engine, kind, ty, shape, width }) => {
                write!(f, "{} class {} {} {shape} {width}", engine.name(), kind_name(kind), ty.name())
            }
            Param::Beside(Key { engine, kind, ty, shape, width }, others) => {
                let kind = kind_name(kind);
                write!(f, "{} beside {kind} {} {shape} {width} {others}", engine.name(), ty.name())
            }
        }
    }
}

/// The text is of no known form; a profile of another version has such lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownParam(pub String);

impl FromStr for Param {
    type Err = UnknownParam;

    fn from_str(text: &str) -> Result<Param, UnknownParam> {
        parse(text).ok_or_else(|| UnknownParam(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Param> {
    let many = |word: &str| [("few", false), ("many", true)].into_iter().find(|m| m.0 == word).map(|m| m.1);
    let kind = |word: &str| KINDS.iter().find(|k| k.1 == word).map(|k| k.0);
    let words: Vec<&str> = text.split(' ').collect();
    let engine = ENGINES.into_iter().find(|e| e.name() == words[0])?;
    let key = |k: &str, ty: &str, shape: &str, width: &str| {
        let (shape, width) = (shape.parse().ok()?, width.parse().ok()?);
        Some(Key { engine, kind: kind(k)?, ty: Type::from_name(ty), shape, width })
    };
    Some(match words[1..] {
        ["launch"] => Param::Launch(engine),
        ["relaunch"] => Param::Relaunch(engine),
        ["node"] => Param::Node(engine),
        ["memory"] => Param::Memory(engine),
        ["arithmetic", m] => Param::Arithmetic(engine, many(m)?),
        ["kernel", k, ty, m] => Param::Kernel(engine, kind(k)?, Type::from_name(ty), many(m)?),
        ["class", k, ty, shape, width] => Param::Class(key(k, ty, shape, width)?),
        ["beside", k, ty, shape, width, others] => {
            Param::Beside(key(k, ty, shape, width)?, others.parse().ok().filter(|o| *o < 8)?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_back_and_nonsense_is_refused() {
        let work = Work { kind: Kind::Experts, ty: Type::Q4_K, m: 2048, k: 2048, n: 3, depth: 128, used: 8 };
        let gpu = EngineKind::Gpu;
        let params = [
            Param::Launch(gpu),
            Param::Relaunch(gpu),
            Param::Node(EngineKind::Npu),
            Param::Memory(EngineKind::Cpu),
            Param::Arithmetic(gpu, true),
            Param::Kernel(gpu, Kind::Attention, Type::F16, false),
            Param::Class(Key::of(gpu, &work)),
            Param::Beside(Key::of(gpu, &work), 5),
        ];
        for param in params {
            assert_eq!(param.to_string().parse(), Ok(param));
        }
        for text in
            ["", "gpu", "tpu launch", "gpu launch 1", "gpu class product q4_K 1", "gpu class product q4_K 1 999"]
        {
            assert_eq!(text.parse::<Param>(), Err(UnknownParam(text.to_owned())));
        }
    }

    #[test]
    fn width_classes_follow_each_other() {
        let classes: Vec<u8> = [1, 2, 15, 16, 17, 32, 33, 64, 65, 512, 2048].map(width_class).into();
        assert_eq!(classes, [1, 2, 15, 16, 17, 17, 18, 18, 19, 21, 23]);
    }
}
