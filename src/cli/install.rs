//! `tri install`: puts `tri`, the plugin builds and the tool links under a prefix. Everything is checked and staged
//! before anything is replaced, so a refusal leaves the prefix as it was.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::builds::{self, Build, INSTALLED};
use super::manifest::{Entry, Manifest, PLACE, What};
use super::prefix::{self, staged};
use super::stop::Stop;
use super::tools;

/// What an installation did.
#[derive(Debug, serde::Serialize)]
pub struct Report {
    /// The prefix.
    pub prefix: PathBuf,
    /// Paths under the prefix that were written.
    pub written: Vec<String>,
    /// Paths under the prefix that were right already.
    pub unchanged: Vec<String>,
}

/// One thing to put in place.
struct Item {
    entry: Entry,
    /// The bytes of a file; a link has none.
    bytes: Vec<u8>,
}

/// Installs the executable `own` and the plugin builds: those in `given`, or else those that lie with it.
///
/// # Errors
/// There is no plugin build, a foreign file is in the way, or the prefix cannot be written; nothing is changed then.
pub fn install(prefix: &Path, own: &Path, given: &[PathBuf]) -> Result<Report, Stop> {
    let items = items(own, &plugins(own, given)?)?;
    let held = prefix::hold(prefix).map_err(|e| cannot_be_written(prefix, &e))?;
    prefix::sweep(&held, prefix);
    let result = put(prefix, held.made, items);
    if result.is_err() && held.made {
        // After a refusal it is empty; else it stays.
        let _ = fs::remove_dir(prefix);
    }
    result
}

/// Puts the items under a prefix that this process holds, and whose folder it made if `fresh`.
fn put(prefix: &Path, fresh: bool, items: Vec<Item>) -> Result<Report, Stop> {
    let before = Manifest::read(prefix)?;
    let (todo, done): (Vec<_>, Vec<_>) = check(prefix, &before, items)?.into_iter().partition(|(_, right)| !right);
    let todo: Vec<_> = todo.into_iter().map(|(item, _)| item).collect();
    let done: Vec<_> = done.into_iter().map(|(item, _)| item).collect();
    let mut after = before.clone();
    for item in todo.iter().chain(&done) {
        after.entries.retain(|entry| entry.path != item.entry.path);
        after.entries.push(item.entry.clone());
    }
    let missing = missing(prefix, &todo);
    if fresh && !after.folders.iter().any(String::is_empty) {
        after.folders.insert(0, String::new());
    }
    after.folders.extend(missing.iter().filter(|folder| !before.folders.contains(folder)).cloned());
    if after != before || !prefix.join(PLACE).is_file() || !todo.is_empty() {
        // Until all is done the record knows the old files and the new ones, so that a call which breaks off anywhere
        // leaves nothing that the next one would not take for ours.
        let meanwhile = Manifest { entries: [&before.entries[..], &after.entries].concat(), ..after.clone() };
        let old = fs::read(prefix.join(PLACE)).ok();
        let mut made = Vec::new();
        if let Err(e) = stage(prefix, &todo, &missing, &meanwhile, &mut made) {
            undo(prefix, old.as_deref(), &made);
            return Err(cannot_be_written(prefix, &e));
        }
        swap(prefix, &todo, &after).map_err(|e| {
            Stop::failed(format!("Installing under {} broke off ({e}): run 'tri install' again.", prefix.display()))
        })?;
    }
    let paths = |items: Vec<Item>| items.into_iter().map(|item| item.entry.path).collect();
    Ok(Report { prefix: prefix.to_owned(), written: paths(todo), unchanged: paths(done) })
}

fn cannot_be_written(prefix: &Path, why: &io::Error) -> Stop {
    Stop::failed(format!(
        "{} cannot be written ({why}): choose another --prefix or run as a user who may write there. Nothing was changed.",
        prefix.display()
    ))
}

/// The builds to install.
fn plugins(own: &Path, given: &[PathBuf]) -> Result<Vec<Build>, Stop> {
    let files = if given.is_empty() { builds::files(own) } else { given.to_vec() };
    let builds = files.iter().map(|file| builds::open(file)).collect::<Result<Vec<_>, _>>()?;
    if builds.is_empty() {
        return Err(Stop::failed(format!(
            "No plugin build lies beside {} or in {}: make one ('scripts/plugin VERSION' in the source of ggml-tri \
             prints its path) and name it with --plugin FILE.",
            own.display(),
            builds::shelf(own).display()
        )));
    }
    // The version becomes the name of a folder.
    let named = |build: &Build| {
        let fine = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
        build.version.chars().all(fine) && build.version.chars().any(|c| c.is_ascii_digit())
    };
    match builds.iter().find(|build| !named(build)) {
        Some(bad) => Err(Stop::failed(format!(
            "{} says it was built for ggml '{}', which is no version: build it again.",
            bad.file.display(),
            bad.version
        ))),
        None => Ok(builds),
    }
}

/// Everything that belongs under the prefix.
fn items(own: &Path, builds: &[Build]) -> Result<Vec<Item>, Stop> {
    let read = |file: &Path| {
        fs::read(file).map_err(|e| Stop::failed(format!("{} cannot be read ({e}): check it.", file.display())))
    };
    let file = |path: String, bytes: Vec<u8>| Item { entry: Entry { path, what: What::of(&bytes) }, bytes };
    let mut items = vec![file("bin/tri".to_owned(), read(own)?)];
    for build in builds {
        let path = format!("lib/ggml-tri/{}/{INSTALLED}", build.version);
        // Of two builds for one version the later one counts: cargo's own is found last.
        items.retain(|item| item.entry.path != path);
        items.push(file(path, read(&build.file)?));
    }
    items.extend(tools::linked().map(|name| Item {
        entry: Entry { path: format!("bin/{name}"), what: What::Link { target: "tri".to_owned() } },
        bytes: Vec::new(),
    }));
    Ok(items)
}

/// Pairs each item with whether it is in place already; refuses if a file in the way is not ours.
fn check(prefix: &Path, manifest: &Manifest, items: Vec<Item>) -> Result<Vec<(Item, bool)>, Stop> {
    let mut foreign = Vec::new();
    let mut checked = Vec::new();
    for item in items {
        let path = prefix.join(&item.entry.path);
        let now =
            What::at(&path).map_err(|e| Stop::failed(format!("{} cannot be read ({e}): check it.", path.display())))?;
        let right = now.as_ref() == Some(&item.entry.what);
        let ours = now.as_ref().is_none_or(|now| manifest.knows(&item.entry.path, now));
        if !right && !ours {
            foreign.push(path.display().to_string());
        }
        checked.push((item, right));
    }
    if foreign.is_empty() {
        return Ok(checked);
    }
    Err(Stop::failed(format!(
        "Not put there by 'tri install', or changed since: {}. Move them away, or choose another --prefix whose bin \
         stands earlier on PATH. Nothing was changed.",
        foreign.join(", ")
    )))
}

/// The folders that are missing for the record and the items, each behind the one around it; the record's own come first.
fn missing(prefix: &Path, todo: &[Item]) -> Vec<String> {
    let mut missing = Vec::new();
    for path in [PLACE].into_iter().chain(todo.iter().map(|item| item.entry.path.as_str())) {
        let mut around: Vec<_> = Path::new(path).ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
        around.reverse();
        let names = around.into_iter().filter(|folder| !prefix.join(folder).is_dir());
        for name in names.map(|folder| folder.to_string_lossy().into_owned()) {
            if !missing.contains(&name) {
                missing.push(name);
            }
        }
    }
    missing
}

/// Makes the folders, puts the record in place as soon as its own are there, and writes every file under a waiting name;
/// `made` collects what to undo.
fn stage(
    prefix: &Path,
    todo: &[Item],
    missing: &[String],
    manifest: &Manifest,
    made: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let (first, rest): (Vec<_>, Vec<_>) = missing.iter().partition(|folder| Path::new(PLACE).starts_with(folder));
    let make = |folder: &String, made: &mut Vec<PathBuf>| {
        let folder = prefix.join(folder);
        match fs::create_dir(&folder) {
            Ok(()) => made.push(folder),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(e) => return Err(e),
        }
        Ok(())
    };
    first.into_iter().try_for_each(|folder| make(folder, made))?;
    record(prefix, manifest)?;
    rest.into_iter().try_for_each(|folder| make(folder, made))?;
    for item in todo {
        let wait = staged(&prefix.join(&item.entry.path));
        made.push(wait.clone());
        match &item.entry.what {
            What::File { .. } => {
                fs::write(&wait, &item.bytes)?;
                fs::set_permissions(&wait, fs::Permissions::from_mode(0o755))?;
            }
            What::Link { target } => symlink(target, &wait)?,
        }
    }
    Ok(())
}

/// Replaces the record, in one step.
fn record(prefix: &Path, manifest: &Manifest) -> io::Result<()> {
    let place = prefix.join(PLACE);
    let wait = staged(&place);
    let text = manifest.text().map_err(|stop| io::Error::other(stop.message))?;
    fs::write(&wait, text).and_then(|()| fs::rename(&wait, place)).inspect_err(|_| {
        // The next call removes it if this one cannot.
        let _ = fs::remove_file(&wait);
    })
}

/// Puts the old record back and removes what was staged, innermost first.
fn undo(prefix: &Path, old: Option<&[u8]>, made: &[PathBuf]) {
    let place = prefix.join(PLACE);
    // What cannot be put back or removed was not made, or is no longer ours.
    let _ = match old {
        Some(old) if fs::read(&place).is_ok_and(|now| now == old) => Ok(()),
        Some(old) => fs::write(&place, old),
        None => fs::remove_file(&place),
    };
    for path in made.iter().rev() {
        let _ = if path.is_dir() && !path.is_symlink() { fs::remove_dir(path) } else { fs::remove_file(path) };
    }
}

/// Renames every waiting file to its place, and then lets the record know the new ones only.
fn swap(prefix: &Path, todo: &[Item], after: &Manifest) -> io::Result<()> {
    for item in todo {
        let path = prefix.join(&item.entry.path);
        fs::rename(staged(&path), path)?;
    }
    record(prefix, after)
}
