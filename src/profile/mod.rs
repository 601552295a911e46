//! What was learned about this chip, kept on disk: load when a stream starts, save when it ends, from any process.
//!
//! ```text
//! let profile = Profile::open(&config.profile);             // once in a process
//! let loaded = profile.load(&fingerprint);                  // `loaded.changed` says what is different since
//! loaded.teach(planner.costs_mut());
//! profile.save(&fingerprint, &Knowledge::of(planner.costs()));
//! ```
//!
//! Nothing here fails its caller: without a usable file one message says why, and the work goes on without. Both calls
//! take milliseconds and may wait for other processes, so they belong to no graph.

mod add;
mod exchange;
mod file;
mod knowledge;
mod merge;
mod planner;
mod recall;
mod rows;
#[cfg(test)]
mod store_tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::chip::fingerprint::Fingerprint;
use crate::config::Keep;
use file::{Fault, Store};
use recall::Common;

pub use exchange::{Amount, Exported, Imported, Invalid, Known};
pub use knowledge::{Decision, Entry, Knowledge};
pub use recall::Loaded;

/// Why the profile cannot be used. Each message says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// There is no folder for it.
    #[error(
        "there is no folder for the profile, so what is learned is forgotten; set HOME or XDG_STATE_HOME, or \
         TRI_PROFILE to a file or 'off'"
    )]
    NoHome,
    /// It cannot be read, written or set aside.
    #[error(
        "the profile {path} cannot be used ({why}), so what is learned is forgotten; correct that, or set TRI_PROFILE to \
         another file or 'off'"
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A newer ggml-tri wrote it.
    #[error(
        "the profile {path} has version {version} and this ggml-tri knows {known}, so what is learned is forgotten; use \
         the newer ggml-tri, or set TRI_PROFILE to another file or 'off'",
        known = file::VERSION
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
}

/// The profile of this user; one for all streams of a process.
#[derive(Debug)]
pub struct Profile {
    store: Result<Store, Option<Trouble>>,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What this process and the file have in common.
    common: BTreeMap<Fingerprint, Common>,
    /// What was said, each once.
    said: Vec<String>,
    /// Whether a trouble was said: one is enough.
    troubled: bool,
}

impl Profile {
    /// The profile that the settings name. Touches no file yet.
    pub fn open(keep: &Keep) -> Profile {
        let store = match keep {
            Keep::Off => Err(None),
            Keep::NoHome => Err(Some(Trouble::NoHome)),
            Keep::File(path) => Ok(Store::new(path)),
        };
        let path = if let Keep::File(path) = keep { path.clone() } else { PathBuf::new() };
        Profile { store, path, state: Mutex::default() }
    }

    /// What is known of a chip; nothing where the profile cannot be used.
    pub fn load(&self, now: &Fingerprint) -> Loaded {
        self.quietly(|profile, state| {
            let read = profile.read(state, |db| Ok((rows::all(db)?, rows::epoch(db)?)))?;
            let (setups, epoch) = read.unwrap_or_default();
            let (loaded, common) = recall::recall(now, &setups, epoch);
            state.common.insert(now.clone(), common);
            Ok(loaded)
        })
        .unwrap_or_default()
    }

    /// Adds what was learned since the last load or save of this process; whether that succeeded. `knowledge` is all that
    /// holds under this fingerprint, what was loaded included; an earlier decision belongs to it once it was confirmed.
    /// What cannot be true is left out, with a message.
    pub fn save(&self, now: &Fingerprint, knowledge: &Knowledge) -> bool {
        let saved = self.quietly(|profile, state| {
            let mut believed = knowledge.clone();
            let mut refused = None;
            believed.entries.retain(|entry| entry.check().map_err(|e| refused = Some(e)).is_ok());
            believed.decisions.retain(|decision| decision.check().map_err(|e| refused = Some(e)).is_ok());
            if let Some(reason) = refused {
                state.say(format!("not everything that was learned is kept: {reason}"));
            }
            if believed.is_empty() {
                return Ok(());
            }
            let common = state.common.remove(now).unwrap_or_default();
            let done = profile.change(state, |db| add::add(db, now, &believed, &common, seconds()));
            // What failed is as it was, and is saved the next time.
            let (done, result) = match done {
                Ok(then) => (then, Ok(())),
                Err(trouble) => (common, Err(trouble)),
            };
            state.common.insert(now.clone(), done);
            result
        });
        saved.is_some()
    }

    /// Everything in the file, for people; nothing if there is no file.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn known(&self) -> Result<Vec<Known>, Trouble> {
        self.with(|profile, state| {
            let setups = profile.read(state, rows::all)?;
            Ok(setups.unwrap_or_default().into_iter().map(Known::from).collect())
        })
    }

    /// Everything in the file, for another machine; nothing if there is no file.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn export(&self) -> Result<Exported, Trouble> {
        self.with(|profile, state| Ok(Exported::of(profile.read(state, rows::all)?.unwrap_or_default())))
    }

    /// Takes over what another profile knows better: costs that come from more samples, decisions for unknown sites. So a
    /// second import of the same changes nothing.
    ///
    /// # Errors
    /// The profile cannot be used.
    pub fn import(&self, from: &Exported) -> Result<Imported, Trouble> {
        self.with(|profile, state| profile.change(state, |db| add::import(db, from)))
    }

    /// Forgets everything, for all processes: what one that still runs had learned until now does not come back.
    ///
    /// # Errors
    /// The profile cannot be used.
    pub fn reset(&self) -> Result<(), Trouble> {
        self.with(|profile, state| match profile.read(state, |_| Ok(()))? {
            Some(()) => profile.change(state, rows::forget),
            None => Ok(()),
        })
    }

    /// What was said so far, each message once.
    pub fn said(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).said.clone()
    }

    /// The file; empty if there is none.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn with<T>(&self, work: impl FnOnce(&Profile, &mut State) -> Result<T, Trouble>) -> Result<T, Trouble> {
        work(self, &mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// For the plugin: the first trouble is a message, all others are silent.
    fn quietly<T>(&self, work: impl FnOnce(&Profile, &mut State) -> Result<T, Trouble>) -> Option<T> {
        if matches!(self.store, Err(None)) {
            return None;
        }
        self.with(|profile, state| {
            let done = work(profile, state);
            Ok(done.map_err(|trouble| state.trouble(&trouble)).ok())
        })
        .ok()
        .flatten()
    }

    fn read<T>(
        &self,
        state: &mut State,
        work: impl Fn(&rusqlite::Connection) -> Result<T, Fault>,
    ) -> Result<Option<T>, Trouble> {
        self.whole(state, |store| store.read(&work))
    }

    fn change<T>(
        &self,
        state: &mut State,
        work: impl Fn(&rusqlite::Connection) -> Result<T, Fault>,
    ) -> Result<T, Trouble> {
        // What is only about to be changed is looked at too: damage must not be written over.
        self.whole(state, |store| {
            store.change(|db| {
                rows::all(db)?;
                work(db)
            })
        })
    }

    /// Does something with the file, once more after a damaged one was set aside.
    fn whole<T>(&self, state: &mut State, work: impl Fn(&Store) -> Result<T, Fault>) -> Result<T, Trouble> {
        let store = self.store.as_ref().map_err(|trouble| trouble.clone().unwrap_or(Trouble::NoHome))?;
        match work(store) {
            Err(Fault::Damaged(why)) => {
                let aside = store.set_aside().map_err(|fault| self.trouble(fault, Some(&why)))?;
                if let Some(name) = aside {
                    state.say(format!(
                        "the profile {} is damaged or none ({why}); it is kept as {} and a new one is begun",
                        self.path.display(),
                        name.display()
                    ));
                }
                work(store).map_err(|fault| self.trouble(fault, None))
            }
            other => other.map_err(|fault| self.trouble(fault, None)),
        }
    }

    fn trouble(&self, fault: Fault, after: Option<&str>) -> Trouble {
        let path = self.path.clone();
        let why = match fault {
            Fault::Newer(version) => return Trouble::Newer { path, version },
            Fault::Busy => "other processes do not let go of it".to_owned(),
            Fault::Damaged(why) | Fault::ReadOnly(why) | Fault::Failed(why) => why,
        };
        let why = after.map_or(why.clone(), |first| format!("it is damaged ({first}) and cannot be renamed: {why}"));
        Trouble::Unusable { path, why }
    }
}

impl State {
    fn say(&mut self, text: String) {
        if !self.said.contains(&text) {
            log::warn!("TRI0: {text}");
            self.said.push(text);
        }
    }

    fn trouble(&mut self, trouble: &Trouble) {
        if !self.troubled {
            self.troubled = true;
            self.say(trouble.to_string());
        }
    }
}

/// Seconds since 1970; 0 on a machine whose clock is before that.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
