//! What can be known of a chip, as plain data without any model in it, and what of it is believable at all.

use serde::{Deserialize, Serialize};

use crate::engine::EngineKind;

/// The longest key, site or choice, in bytes: far above what the planner writes, so that a damaged length is noticed.
const LONGEST: usize = 4096;
/// The most values of one entry.
const MOST_VALUES: usize = 1024;
/// The most samples of one entry: exact as a JSON number, and beyond what a machine measures in its life.
const MOST_SAMPLES: u64 = 1 << 53;

/// What the planner learned of one cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Whose cost.
    #[serde(with = "engine")]
    pub engine: EngineKind,
    /// What it is the cost of, in the planner's words: operation, type, shape and width, never a model.
    pub key: String,
    /// The planner's figures, finite and positive; their meaning is the planner's.
    pub values: Vec<f64>,
    /// From how many measurements they come.
    pub samples: u64,
}

/// What the planner chose for one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Where: operation, type, shape and width, never a model.
    pub site: String,
    /// Who computes what there, in the planner's words.
    pub choice: String,
}

/// All that is known under one fingerprint.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Knowledge {
    /// What things cost.
    pub entries: Vec<Entry>,
    /// What was chosen.
    pub decisions: Vec<Decision>,
}

impl Knowledge {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.decisions.is_empty()
    }
}

impl Entry {
    /// Whether it can be true.
    ///
    /// # Errors
    /// The sentence says what cannot be.
    pub fn check(&self) -> Result<(), String> {
        plain("key", &self.key)?;
        if self.values.is_empty() || self.values.len() > MOST_VALUES {
            return Err(format!("{} has {} values; 1 to {MOST_VALUES} are possible", self.key, self.values.len()));
        }
        if let Some(value) = self.values.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
            return Err(format!("{} has the value {value}; finite and positive ones are possible", self.key));
        }
        if self.samples == 0 || self.samples > MOST_SAMPLES {
            return Err(format!("{} has {} samples; 1 to {MOST_SAMPLES} are possible", self.key, self.samples));
        }
        Ok(())
    }
}

impl Decision {
    /// Whether it can be true.
    ///
    /// # Errors
    /// The sentence says what cannot be.
    pub fn check(&self) -> Result<(), String> {
        plain("site", &self.site).and_then(|()| plain("choice", &self.choice))
    }
}

fn plain(what: &str, text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > LONGEST || text.chars().any(char::is_control) {
        let start: String = text.chars().take(40).collect();
        return Err(format!("the {what} {start:?} is empty, longer than {LONGEST} bytes or no plain text"));
    }
    Ok(())
}

/// An engine by its name, in files and in JSON.
pub(super) mod engine {
    use super::EngineKind;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// The engine with this name.
    pub fn named(name: &str) -> Option<EngineKind> {
        [EngineKind::Cpu, EngineKind::Gpu, EngineKind::Npu].into_iter().find(|kind| kind.name() == name)
    }

    pub fn serialize<S: Serializer>(kind: &EngineKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name())
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<EngineKind, D::Error> {
        let name = String::deserialize(from)?;
        named(&name).ok_or_else(|| D::Error::custom(format!("there is no engine '{name}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_true_passes() {
        let good = Entry { engine: EngineKind::Gpu, key: "MUL_MAT".to_owned(), values: vec![1e-3, 2.0], samples: 3 };
        assert_eq!(good.check(), Ok(()));
        for values in [vec![], vec![0.0], vec![1.0, -1.0], vec![f64::NAN], vec![f64::INFINITY], vec![1.0; 1025]] {
            assert!(Entry { values, ..good.clone() }.check().is_err());
        }
        for samples in [0, MOST_SAMPLES + 1, u64::MAX] {
            assert!(Entry { samples, ..good.clone() }.check().is_err());
        }
        for key in ["", "a\u{1b}[2J", &"x".repeat(LONGEST + 1)] {
            assert!(Entry { key: key.to_owned(), ..good.clone() }.check().is_err());
            assert!(Decision { site: key.to_owned(), choice: "gpu".to_owned() }.check().is_err());
            assert!(Decision { site: "x".to_owned(), choice: key.to_owned() }.check().is_err());
        }
    }

    #[test]
    fn an_engine_is_written_by_its_name() {
        let entry = Entry { engine: EngineKind::Npu, key: "k".to_owned(), values: vec![0.5], samples: 1 };
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(text, r#"{"engine":"npu","key":"k","values":[0.5],"samples":1}"#);
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
        assert!(serde_json::from_str::<Entry>(&text.replace("npu", "tpu")).is_err());
    }
}
