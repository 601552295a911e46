//! The profile as people and other machines see it: a summary, and all of it as JSON that is checked when it comes back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::knowledge::{Decision, Entry};
use super::rows::Setup;
use crate::chip::fingerprint::Fingerprint;

/// What the JSON calls itself.
const FORMAT: &str = "ggml-tri profile";
/// The form of the JSON.
const VERSION: u64 = 1;
/// The last second that is a time: the end of the year 9999, beyond which no calendar reads it.
const LAST_SECOND: u64 = 253_402_300_799;

/// How much is known of one thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// How many costs.
    pub costs: u64,
    /// From how many measurements, all together.
    pub samples: u64,
}

/// What is known under one fingerprint, in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Known {
    /// The chip and what ran it.
    pub parts: Fingerprint,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// When something was last learned, in seconds since 1970.
    pub last: u64,
    /// By the engine's name.
    pub engines: BTreeMap<&'static str, Amount>,
    /// How many decisions.
    pub decisions: usize,
}

impl From<Setup> for Known {
    fn from(setup: Setup) -> Known {
        let mut engines = BTreeMap::<_, Amount>::new();
        for entry in setup.entries() {
            let amount = engines.entry(entry.engine.name()).or_default();
            amount.costs += 1;
            amount.samples = amount.samples.saturating_add(entry.samples);
        }
        let (since, last, decisions) = (setup.since, setup.last, setup.decisions.len());
        Known { parts: setup.fingerprint, since, last, engines, decisions }
    }
}

/// Everything in a profile, as it is exported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exported {
    format: String,
    version: u64,
    setups: Vec<Whole>,
}

/// What is known under one fingerprint, all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whole {
    /// The chip and what ran it.
    #[serde(rename = "parts")]
    pub fingerprint: Fingerprint,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// When something was last learned.
    pub last: u64,
    /// Costs.
    pub costs: Vec<Entry>,
    /// Decisions.
    pub decisions: Vec<Decision>,
}

/// A text is no profile that can be believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no profile that can be imported ({0}); use what 'tri profile export' wrote")]
pub struct Invalid(String);

/// What an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Costs that were taken over.
    pub costs: usize,
    /// Decisions that were taken over.
    pub decisions: usize,
    /// Costs and decisions that were known as well or better.
    pub kept: usize,
}

impl Exported {
    /// All of these.
    pub(super) fn of(setups: Vec<Setup>) -> Exported {
        let whole = |setup: Setup| {
            let costs = setup.entries().collect();
            let Setup { fingerprint, since, last, decisions, .. } = setup;
            Whole { fingerprint, since, last, costs, decisions }
        };
        Exported { format: FORMAT.to_owned(), version: VERSION, setups: setups.into_iter().map(whole).collect() }
    }

    /// Reads an export; every number and text in it is checked.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn parse(text: &str) -> Result<Exported, Invalid> {
        let read: Exported = serde_json::from_str(text).map_err(|e| Invalid(e.to_string()))?;
        if read.format != FORMAT || read.version != VERSION {
            return Err(Invalid(format!("format '{}' version {}", read.format, read.version)));
        }
        for setup in &read.setups {
            if setup.last > LAST_SECOND || setup.since > setup.last {
                return Err(Invalid(format!("known since {} until {}", setup.since, setup.last)));
            }
            setup.costs.iter().try_for_each(Entry::check).map_err(Invalid)?;
            setup.decisions.iter().try_for_each(Decision::check).map_err(Invalid)?;
        }
        Ok(read)
    }

    /// By fingerprint.
    pub(super) fn setups(&self) -> &[Whole] {
        &self.setups
    }

    /// How many fingerprints it has.
    pub fn chips(&self) -> usize {
        self.setups.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"format":"ggml-tri profile","version":1,"setups":[{"parts":{"cpu":"Zen"},"since":5,"last":9,
        "costs":[{"engine":"cpu","key":"k","values":[0.001,2],"samples":3}],
        "decisions":[{"site":"s","choice":"cpu:1"}]}]}"#;

    #[test]
    fn what_was_exported_is_read_back() {
        let read = Exported::parse(GOOD).unwrap();
        assert_eq!(read.setups()[0].costs[0].values, [0.001, 2.0]);
        assert_eq!(Exported::parse(&serde_json::to_string(&read).unwrap()).unwrap(), read);
    }

    #[test]
    fn no_number_or_text_is_trusted() {
        for (what, wrong) in [
            ("0.001,2", "0.001,0"),
            ("0.001,2", "-0.001,2"),
            ("0.001,2", "1e999"),
            ("0.001,2", "NaN"),
            ("0.001,2", ""),
            ("\"samples\":3", "\"samples\":0"),
            ("\"samples\":3", "\"samples\":-3"),
            ("\"samples\":3", "\"samples\":1e300"),
            ("\"samples\":3", "\"samples\":18446744073709551615"),
            ("\"engine\":\"cpu\"", "\"engine\":\"tpu\""),
            ("\"key\":\"k\"", "\"key\":\"\\u001b[2J\""),
            ("cpu:1", ""),
            ("\"cpu\":\"Zen\"", "\"chip\":\"Zen\""),
            ("\"since\":5", "\"since\":10"),
            ("\"last\":9", "\"last\":253402300800"),
            ("\"version\":1", "\"version\":2"),
            ("ggml-tri profile", "another profile"),
            ("\"since\":5", "\"since\":5,\"more\":1"),
        ] {
            assert!(GOOD.contains(what));
            assert!(Exported::parse(&GOOD.replacen(what, wrong, 1)).is_err(), "{wrong}");
        }
    }
}
