//! Writing: what this process learned, and what another profile knows. Each is one transaction of the caller.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::exchange::{Exported, Imported};
use super::file::Fault;
use super::knowledge::{Entry, Knowledge};
use super::merge::{self, Row};
use super::recall::Common;
use super::rows::{self, Setup};
use crate::chip::fingerprint::Fingerprint;
use crate::engine::EngineKind;

/// The rows of a set-up, by engine and key.
type Costs<'a> = BTreeMap<(EngineKind, &'a str), &'a Row>;

fn costs(setup: Option<&Setup>) -> Costs<'_> {
    setup.into_iter().flat_map(|s| &s.costs).map(|(engine, key, row)| ((*engine, key.as_str()), row)).collect()
}

/// Adds what is new in `knowledge` since `common`; returns what file and process have in common then.
pub fn add(
    db: &Connection,
    now: &Fingerprint,
    knowledge: &Knowledge,
    common: &Common,
    time: u64,
) -> Result<Common, Fault> {
    let setups = rows::all(db)?;
    let epoch = rows::epoch(db)?;
    let setup = setups.iter().find(|setup| setup.fingerprint == *now);
    let known = costs(setup);
    let mut then = Common { costs: common.costs.clone(), decisions: common.decisions.clone(), epoch };
    let mut changed = Vec::new();
    for entry in &knowledge.entries {
        let row = known.get(&(entry.engine, entry.key.as_str())).copied();
        let key = (entry.engine, entry.key.clone());
        let merged = merge::entry(row, &entry.values, entry.samples, common.costs.get(&key).copied(), epoch);
        if let Some((row, sync)) = merged {
            then.costs.insert(key, sync);
            changed.push((entry, row));
        }
    }
    let mut decided = Vec::new();
    for decision in &knowledge.decisions {
        let stored = setup.and_then(|s| s.decisions.iter().find(|other| other.site == decision.site));
        let write = match (common.decisions.get(&decision.site), stored) {
            (_, Some(stored)) if stored.choice == decision.choice => false,
            // Unchanged here: where it differs somebody decided later, and where it is missing it was forgotten on purpose
            // (a later epoch) or lost.
            (Some(before), stored) if *before == decision.choice => stored.is_none() && epoch <= common.epoch,
            _ => true,
        };
        then.decisions.insert(decision.site.clone(), decision.choice.clone());
        if write {
            decided.push(decision);
        }
    }
    if changed.is_empty() && decided.is_empty() {
        return Ok(then);
    }
    let since = setup.map_or(time, |setup| setup.since);
    let id = rows::put_setup(db, setup, now, since, time.max(since))?;
    for (entry, row) in changed {
        rows::put_cost(db, id, now, entry, &row)?;
    }
    for decision in decided {
        rows::put_decision(db, id, now, decision)?;
    }
    Ok(then)
}

/// Takes over costs that come from more samples, and decisions for unknown sites.
pub fn import(db: &Connection, from: &Exported) -> Result<Imported, Fault> {
    let mut report = Imported::default();
    for known in from.setups() {
        // Read again for each: a file may name one fingerprint twice.
        let (setups, epoch) = (rows::all(db)?, rows::epoch(db)?);
        let setup = setups.iter().find(|setup| setup.fingerprint == known.fingerprint);
        let own = costs(setup);
        let better =
            |entry: &&Entry| own.get(&(entry.engine, entry.key.as_str())).is_none_or(|row| row.samples < entry.samples);
        let site = |site: &str| setup.is_some_and(|setup| setup.decisions.iter().any(|own| own.site == site));
        let costs: Vec<_> = known.costs.iter().filter(better).collect();
        let decisions: Vec<_> = known.decisions.iter().filter(|decision| !site(&decision.site)).collect();
        report.kept += known.costs.len() + known.decisions.len() - costs.len() - decisions.len();
        if costs.is_empty() && decisions.is_empty() {
            continue;
        }
        let since = setup.map_or(known.since, |setup| setup.since.min(known.since));
        let last = setup.map_or(known.last, |setup| setup.last.max(known.last));
        let id = rows::put_setup(db, setup, &known.fingerprint, since, last)?;
        for entry in &costs {
            let row = own.get(&(entry.engine, entry.key.as_str()));
            let row = Row {
                values: entry.values.clone(),
                samples: entry.samples,
                // Whoever holds the old figures adds only what is new to them.
                epoch: row.map_or(epoch, |row| row.epoch + 1),
            };
            rows::put_cost(db, id, &known.fingerprint, entry, &row)?;
        }
        for decision in &decisions {
            rows::put_decision(db, id, &known.fingerprint, decision)?;
        }
        report.costs += costs.len();
        report.decisions += decisions.len();
    }
    Ok(report)
}
