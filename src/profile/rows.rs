//! The tables of the file, and their rows with a checksum each: SQLite notices damage to its own structures, not to what
//! lies in them.

use rusqlite::{Connection, OptionalExtension, params};

use super::file::Fault;
use super::knowledge::{Decision, Entry, engine};
use super::merge::Row;
use crate::chip::fingerprint::Fingerprint;
use crate::engine::EngineKind;

/// The tables. They are compared to the letter, so every change here needs another [`super::file::VERSION`].
pub const TABLES: [(&str, &str); 4] = [
    ("epoch", "CREATE TABLE epoch (now INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT"),
    (
        "setup",
        "CREATE TABLE setup (id INTEGER PRIMARY KEY, parts TEXT NOT NULL, since INTEGER NOT NULL, \
         last INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT",
    ),
    (
        "cost",
        "CREATE TABLE cost (setup INTEGER NOT NULL, engine TEXT NOT NULL, key TEXT NOT NULL, figures BLOB NOT NULL, \
         samples INTEGER NOT NULL, epoch INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (setup, engine, key)) \
         STRICT, WITHOUT ROWID",
    ),
    (
        "decision",
        "CREATE TABLE decision (setup INTEGER NOT NULL, site TEXT NOT NULL, choice TEXT NOT NULL, sum INTEGER NOT NULL, \
         PRIMARY KEY (setup, site)) STRICT, WITHOUT ROWID",
    ),
];

/// One fingerprint in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Its number in the file.
    pub id: i64,
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// Since when it is known, in seconds since 1970.
    pub since: u64,
    /// When something was last learned.
    pub last: u64,
    /// Costs.
    pub costs: Vec<(EngineKind, String, Row)>,
    /// Decisions.
    pub decisions: Vec<Decision>,
}

impl Setup {
    /// The costs as the planner knows them.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.costs.iter().map(|(engine, key, row)| Entry {
            engine: *engine,
            key: key.clone(),
            values: row.values.clone(),
            samples: row.samples,
        })
    }
}

/// FNV-1a, 64 bits, over fields with their lengths: finds accidents, and is no protection against forgery.
fn sum(fields: &[&[u8]]) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for field in fields {
        eat(&field.len().to_le_bytes());
        eat(field);
    }
    hash.cast_signed()
}

fn parts(fingerprint: &Fingerprint) -> Result<String, Fault> {
    serde_json::to_string(fingerprint).map_err(|e| Fault::Failed(e.to_string()))
}

fn setup_sum(id: i64, parts: &str, since: i64, last: i64) -> i64 {
    sum(&[&id.to_le_bytes(), parts.as_bytes(), &since.to_le_bytes(), &last.to_le_bytes()])
}

fn cost_sum(setup: &str, engine: &str, key: &str, figures: &[u8], samples: i64, epoch: i64) -> i64 {
    let texts = [setup.as_bytes(), engine.as_bytes(), key.as_bytes(), figures];
    sum(&[texts[0], texts[1], texts[2], texts[3], &samples.to_le_bytes(), &epoch.to_le_bytes()])
}

fn decision_sum(setup: &str, decision: &Decision) -> i64 {
    sum(&[setup.as_bytes(), decision.site.as_bytes(), decision.choice.as_bytes()])
}

fn damaged(what: impl Into<String>) -> Fault {
    Fault::Damaged(what.into())
}

fn number(value: i64) -> Result<u64, Fault> {
    u64::try_from(value).map_err(|_| damaged("a number is negative"))
}

/// The file's epoch: how often everything was forgotten on purpose.
pub fn epoch(db: &Connection) -> Result<u64, Fault> {
    let (now, own): (i64, i64) =
        db.query_row("SELECT now, sum FROM epoch", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if own != sum(&[&now.to_le_bytes()]) {
        return Err(damaged("the checksum of its epoch is wrong"));
    }
    number(now)
}

/// Sets the file's epoch.
pub fn set_epoch(db: &Connection, now: u64) -> Result<(), Fault> {
    let now = now.cast_signed();
    db.execute("DELETE FROM epoch", [])?;
    db.execute("INSERT INTO epoch VALUES (?, ?)", [now, sum(&[&now.to_le_bytes()])])?;
    Ok(())
}

/// Everything in the file, in the order of the numbers.
///
/// # Errors
/// The file cannot be read, or a row is not what was written.
pub fn all(db: &Connection) -> Result<Vec<Setup>, Fault> {
    epoch(db)?;
    let mut statement = db.prepare("SELECT id, parts, since, last, sum FROM setup ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))?;
    let rows = rows.collect::<Result<Vec<(i64, String, i64, i64, i64)>, _>>()?;
    let mut setups = Vec::new();
    for (id, text, since, last, own) in rows {
        if own != setup_sum(id, &text, since, last) {
            return Err(damaged("the checksum of a fingerprint is wrong"));
        }
        let fingerprint = serde_json::from_str(&text).map_err(|e| damaged(format!("a fingerprint is none ({e})")))?;
        let (costs, decisions) = (costs(db, id, &text)?, decisions(db, id, &text)?);
        setups.push(Setup { id, fingerprint, since: number(since)?, last: number(last)?, costs, decisions });
    }
    for table in ["cost", "decision"] {
        let orphan = format!("SELECT 1 FROM {table} WHERE setup NOT IN (SELECT id FROM setup) LIMIT 1");
        if db.query_row(&orphan, [], |_| Ok(())).optional()?.is_some() {
            return Err(damaged(format!("a {table} belongs to no fingerprint")));
        }
    }
    Ok(setups)
}

fn costs(db: &Connection, setup: i64, parts: &str) -> Result<Vec<(EngineKind, String, Row)>, Fault> {
    let mut statement =
        db.prepare("SELECT engine, key, figures, samples, epoch, sum FROM cost WHERE setup = ? ORDER BY engine, key")?;
    let rows = statement
        .query_map([setup], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))?;
    let rows = rows.collect::<Result<Vec<(String, String, Vec<u8>, i64, i64, i64)>, _>>()?;
    let mut costs = Vec::new();
    for (name, key, figures, samples, epoch, own) in rows {
        if own != cost_sum(parts, &name, &key, &figures, samples, epoch) {
            return Err(damaged("the checksum of a cost is wrong"));
        }
        let engine = engine::named(&name).ok_or_else(|| damaged(format!("there is no engine '{name}'")))?;
        let (chunks, rest) = figures.as_chunks::<8>();
        let values: Vec<f64> = chunks.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let entry = Entry { engine, key, values, samples: number(samples)? };
        entry.check().map_err(damaged)?;
        if !rest.is_empty() {
            return Err(damaged("a cost has part of a figure"));
        }
        costs.push((engine, entry.key, Row { values: entry.values, samples: entry.samples, epoch: number(epoch)? }));
    }
    Ok(costs)
}

fn decisions(db: &Connection, setup: i64, parts: &str) -> Result<Vec<Decision>, Fault> {
    let mut statement = db.prepare("SELECT site, choice, sum FROM decision WHERE setup = ? ORDER BY site")?;
    let read = |row: &rusqlite::Row| Ok((Decision { site: row.get(0)?, choice: row.get(1)? }, row.get(2)?));
    let rows = statement.query_map([setup], read)?.collect::<Result<Vec<(Decision, i64)>, _>>()?;
    for (decision, own) in &rows {
        if *own != decision_sum(parts, decision) {
            return Err(damaged("the checksum of a decision is wrong"));
        }
        decision.check().map_err(damaged)?;
    }
    Ok(rows.into_iter().map(|(decision, _)| decision).collect())
}

/// Notes that something is known under a fingerprint since and until these times; returns its number.
pub fn put_setup(
    db: &Connection,
    known: Option<&Setup>,
    of: &Fingerprint,
    since: u64,
    last: u64,
) -> Result<i64, Fault> {
    let id = match known {
        Some(setup) => setup.id,
        None => db.query_row("SELECT coalesce(max(id), 0) + 1 FROM setup", [], |row| row.get(0))?,
    };
    let (text, since, last) = (parts(of)?, since.cast_signed(), last.cast_signed());
    let own = setup_sum(id, &text, since, last);
    db.execute("INSERT OR REPLACE INTO setup VALUES (?, ?, ?, ?, ?)", params![id, text, since, last, own])?;
    Ok(id)
}

/// Writes a cost.
pub fn put_cost(db: &Connection, setup: i64, of: &Fingerprint, entry: &Entry, row: &Row) -> Result<(), Fault> {
    let figures: Vec<u8> = row.values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let (name, samples, epoch) = (entry.engine.name(), row.samples.cast_signed(), row.epoch.cast_signed());
    let own = cost_sum(&parts(of)?, name, &entry.key, &figures, samples, epoch);
    db.execute(
        "INSERT OR REPLACE INTO cost VALUES (?, ?, ?, ?, ?, ?, ?)",
        params![setup, name, entry.key, figures, samples, epoch, own],
    )?;
    Ok(())
}

/// Writes a decision.
pub fn put_decision(db: &Connection, setup: i64, of: &Fingerprint, decision: &Decision) -> Result<(), Fault> {
    let own = decision_sum(&parts(of)?, decision);
    db.execute(
        "INSERT OR REPLACE INTO decision VALUES (?, ?, ?, ?)",
        params![setup, decision.site, decision.choice, own],
    )?;
    Ok(())
}

/// Forgets everything, and remembers that this was meant: no process brings back what it learned before.
pub fn forget(db: &Connection) -> Result<(), Fault> {
    let latest: i64 = db.query_row("SELECT coalesce(max(epoch), 0) FROM cost", [], |row| row.get(0))?;
    let next = epoch(db)?.max(number(latest)?) + 1;
    db.execute_batch("DELETE FROM cost; DELETE FROM decision; DELETE FROM setup")?;
    set_epoch(db, next)
}
