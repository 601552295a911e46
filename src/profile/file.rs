//! The file itself: opening it, knowing whether it is ours and whole, and setting it aside if it is not.
//!
//! A connection lives for one transaction only, so nothing is held open over a fork, and the last one that closes leaves
//! a single file behind. Nothing but SQLite opens the file: closing any descriptor of it would drop the locks that SQLite
//! holds for this process. Instead, a lock file beside it is held shared by all who use the file and alone by whoever
//! renames it, so that nobody writes into a file that was set aside.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::rows;

/// The form of the tables and of what lies in them.
pub const VERSION: i64 = 1;
/// SQLite's `application_id`: the letters "TRI0".
const OURS: i64 = 0x5452_4930;
/// How long one operation waits for other processes. A save is a transaction of milliseconds, so eight at once are far below.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest file, in pages of 4096 bytes: 64 MiB, about 200,000 costs.
const MOST_PAGES: i64 = 16384;

/// Why something could not be done with the file.
#[derive(Debug)]
pub enum Fault {
    /// It is not what was written, or not ours.
    Damaged(String),
    /// A newer ggml-tri wrote it.
    Newer(i64),
    /// Other processes do not let go of it.
    Busy,
    /// It cannot be opened for writing here.
    ReadOnly(String),
    /// Anything else, such as a full disk.
    Failed(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        use rusqlite::Error as E;
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch) => {
                Fault::Damaged(text)
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
                Fault::Busy
            }
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Fault::ReadOnly(text),
            Some(_) => Fault::Failed(text),
            None => match error {
                // The tables were compared before, so a row that does not fit them, or is not there, is damage.
                E::InvalidColumnType(..)
                | E::FromSqlConversionFailure(..)
                | E::IntegralValueOutOfRange(..)
                | E::QueryReturnedNoRows
                | E::Utf8Error(..) => Fault::Damaged(text),
                _ => Fault::Failed(text),
            },
        }
    }
}

/// The file at a path, which need not exist.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
    /// The largest size in pages.
    pages: i64,
}

impl Store {
    /// The file at a path.
    pub fn new(path: &Path) -> Store {
        // A link is followed here, so that what SQLite keeps beside the file is found where it lies.
        Store { path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()), pages: MOST_PAGES }
    }

    /// As if the disk were full at so many pages.
    #[cfg(test)]
    pub fn with_pages(self, pages: i64) -> Store {
        Store { pages, ..self }
    }

    /// Reads in one transaction; `None` if there is no file. Creates nothing.
    ///
    /// # Errors
    /// The file is damaged, newer, or cannot be read.
    pub fn read<T>(&self, work: impl Fn(&Connection) -> Result<T, Fault>) -> Result<Option<T>, Fault> {
        if !self.exists()? {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let read = self.locked(false).and_then(|_lock| self.attempt(&self.path, flags, false, &work));
        match read {
            // Where nothing can be written, not even SQLite's own lock, the file can still be read as it lies there.
            Err(Fault::ReadOnly(_)) => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                self.attempt(&self.immutable(), flags, false, &work)
            }
            other => other,
        }
    }

    /// Changes the file in one transaction, and creates it and its folder if they are missing.
    ///
    /// # Errors
    /// The file is damaged, newer, or cannot be written; it is as it was then.
    pub fn change<T>(&self, work: impl Fn(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        self.exists()?;
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|e| Fault::ReadOnly(format!("{}: {e}", folder.display())))?;
        }
        let _lock = self.locked(false)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        // Nothing is missing after a change, so this is never `None`.
        self.attempt(&self.path, flags, true, &work)?.ok_or_else(|| Fault::Failed("the file is empty".to_owned()))
    }

    /// Renames a damaged file, with what SQLite keeps beside it, and returns its new name; `None` if it is whole by now,
    /// because somebody else was first.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn set_aside(&self) -> Result<Option<PathBuf>, Fault> {
        let _lock = self.locked(true)?;
        let whole = |db: &Connection| rows::all(db).map(|_| ());
        match self.attempt(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE, false, &whole) {
            Err(Fault::Damaged(_)) => {}
            Ok(_) => return Ok(None),
            Err(other) => return Err(other),
        }
        let beside = |path: &Path, end: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        const ENDS: [&str; 4] = ["-journal", "-shm", "-wal", ""];
        let taken = |path: &PathBuf| ENDS.iter().any(|end| beside(path, end).symlink_metadata().is_ok());
        let name = (1_u64..).map(|n| beside(&self.path, &format!(".aside-{n}"))).find(|name| !taken(name));
        let Some(name) = name else { return Err(Fault::Failed("every number is taken".to_owned())) };
        // The file itself comes last: killed in between, the next one finds it damaged still.
        for end in ENDS {
            match fs::rename(beside(&self.path, end), beside(&name, end)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Fault::ReadOnly(e.to_string())),
                _ => {}
            }
        }
        Ok(Some(name))
    }

    /// Whether there is a file; what is no file at all is never opened.
    fn exists(&self) -> Result<bool, Fault> {
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => Ok(true),
            Ok(_) => Err(Fault::Failed("it is no file".to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Fault::ReadOnly(e.to_string())),
        }
    }

    /// The lock, shared or alone; the kernel gives it back when its holder is killed.
    fn locked(&self, alone: bool) -> Result<File, Fault> {
        let mut path = self.path.as_os_str().to_owned();
        path.push(".lock");
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(|e| Fault::ReadOnly(format!("{}: {e}", Path::new(&path).display())))?;
        patiently(|| match if alone { file.try_lock() } else { file.try_lock_shared() } {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(Fault::Busy),
            Err(TryLockError::Error(e)) => Err(Fault::ReadOnly(e.to_string())),
        })?;
        Ok(file)
    }

    /// The file as SQLite's name for one that nobody changes.
    fn immutable(&self) -> PathBuf {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
        let escaped = self.path.as_os_str().as_encoded_bytes().iter().fold(String::new(), |text, byte| {
            text + &if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02x}") }
        });
        PathBuf::from(format!("file:{escaped}?immutable=1"))
    }

    /// One transaction on a fresh connection, again while others hold the file.
    fn attempt<T>(
        &self,
        name: &Path,
        flags: OpenFlags,
        write: bool,
        work: &impl Fn(&Connection) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        patiently(|| {
            let length = fs::metadata(&self.path).map_or(0, |found| found.len());
            let mut db = Connection::open_with_flags(name, flags)?;
            db.busy_timeout(PATIENCE)?;
            db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = NORMAL")?;
            db.pragma_update_and_check(None, "max_page_count", self.pages, |_| Ok(()))?;
            let fresh = fresh(&db)?;
            // SQLite takes the beginning of a page for an empty file, and would write over it.
            if fresh && length > 0 && number(&db, "page_count")? == 0 {
                return Err(Fault::Damaged("it is cut short".to_owned()));
            }
            if write && fresh {
                db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            }
            let behavior = if write { TransactionBehavior::Immediate } else { TransactionBehavior::Deferred };
            let transaction = db.transaction_with_behavior(behavior)?;
            if !check(&transaction)? {
                if !write {
                    return Ok(None);
                }
                create(&transaction)?;
            }
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(Some(done))
        })
    }
}

/// Does something again while others are in the way.
fn patiently<T>(mut work: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    let end = Instant::now() + PATIENCE;
    loop {
        match work() {
            Err(Fault::Busy) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
}

fn number(db: &Connection, pragma: &str) -> Result<i64, Fault> {
    Ok(db.pragma_query_value(None, pragma, |row| row.get(0))?)
}

/// What the file has of tables, indexes, triggers and views that somebody wrote: (name, text).
fn tables(db: &Connection) -> Result<Vec<(String, String)>, Fault> {
    let mut statement = db.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether nothing was written into the file yet: it is new, or its writer was killed at once.
fn fresh(db: &Connection) -> Result<bool, Fault> {
    Ok(number(db, "application_id")? == 0 && number(db, "user_version")? == 0 && tables(db)?.is_empty())
}

/// Whether the file holds a profile: `false` if it holds nothing at all.
fn check(db: &Connection) -> Result<bool, Fault> {
    if fresh(db)? {
        return Ok(false);
    }
    if number(db, "application_id")? != OURS {
        return Err(Fault::Damaged("it is the database of another program".to_owned()));
    }
    match number(db, "user_version")? {
        VERSION => {}
        newer if newer > VERSION => return Err(Fault::Newer(newer)),
        other => return Err(Fault::Damaged(format!("there is no version {other}"))),
    }
    let expected = rows::TABLES.map(|(name, text)| (name.to_owned(), text.to_owned()));
    if tables(db)? != expected {
        return Err(Fault::Damaged("its tables are not those of a profile".to_owned()));
    }
    let said: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if said == "ok" { Ok(true) } else { Err(Fault::Damaged(said)) }
}

fn create(db: &Connection) -> Result<(), Fault> {
    for (_, text) in rows::TABLES {
        db.execute(text, [])?;
    }
    rows::set_epoch(db, 0)?;
    db.pragma_update(None, "application_id", OURS)?;
    db.pragma_update(None, "user_version", VERSION)?;
    Ok(())
}
