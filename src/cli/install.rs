//! `tri install`: puts `tri`, the plugin builds and the tool links under a prefix. Everything is checked and staged
//! before anything is replaced, so a refusal leaves the prefix as it was.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::builds::{self, Build, INSTALLED};
use super::manifest::{Entry, Manifest, PLACE, What};
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
    let mut manifest = Manifest::read(prefix)?;
    let (todo, done): (Vec<_>, Vec<_>) = check(prefix, &manifest, items)?.into_iter().partition(|(_, right)| !right);
    let todo: Vec<_> = todo.into_iter().map(|(item, _)| item).collect();
    let done: Vec<_> = done.into_iter().map(|(item, _)| item).collect();
    for item in todo.iter().chain(&done) {
        manifest.entries.retain(|entry| entry.path != item.entry.path);
        manifest.entries.push(item.entry.clone());
    }
    if !todo.is_empty() || !prefix.join(PLACE).is_file() {
        let mut made = Vec::new();
        let result = stage(prefix, &todo, &mut manifest, &mut made);
        if let Err(e) = result {
            undo(&made);
            return Err(Stop::failed(format!(
                "{} cannot be written ({e}): choose another --prefix or run as a user who may write there. Nothing was \
                 changed.",
                prefix.display()
            )));
        }
        swap(prefix, &todo).map_err(|e| {
            Stop::failed(format!("Installing under {} broke off ({e}): run 'tri install' again.", prefix.display()))
        })?;
    }
    let paths = |items: Vec<Item>| items.into_iter().map(|item| item.entry.path).collect();
    Ok(Report { prefix: prefix.to_owned(), written: paths(todo), unchanged: paths(done) })
}

/// The builds to install.
fn plugins(own: &Path, given: &[PathBuf]) -> Result<Vec<Build>, Stop> {
    let files = if given.is_empty() { builds::files(own) } else { given.to_vec() };
    let builds = files.iter().map(|file| builds::open(file)).collect::<Result<Vec<_>, _>>()?;
    if builds.is_empty() {
        return Err(Stop::failed(format!(
            "No plugin build lies beside {} or in {}: name one with --plugin FILE.",
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
        let ours = now.is_none() || manifest.entry(&item.entry.path).map(|entry| &entry.what) == now.as_ref();
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

/// The name under which a file waits to be swapped in.
fn staged(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.tri-new"))
}

/// Makes the folders and writes every file under a waiting name, the manifest too; `made` collects what to undo.
fn stage(prefix: &Path, todo: &[Item], manifest: &mut Manifest, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let paths = todo.iter().map(|item| item.entry.path.as_str()).chain([PLACE]);
    for path in paths {
        let parent = Path::new(path).parent().unwrap_or(Path::new(""));
        let mut chain: Vec<_> = parent.ancestors().collect();
        chain.reverse();
        for below in chain {
            let folder = prefix.join(below);
            if folder.is_dir() {
                continue;
            }
            // Only the prefix itself can lack folders above it.
            if below.as_os_str().is_empty() {
                fs::create_dir_all(&folder)?
            } else {
                fs::create_dir(&folder)?
            }
            made.push(folder);
            manifest.folders.push(below.to_string_lossy().into_owned());
        }
    }
    for item in todo {
        let wait = staged(&prefix.join(&item.entry.path));
        // A waiting file can only be the rest of an installation that broke off.
        let _ = fs::remove_file(&wait);
        made.push(wait.clone());
        match &item.entry.what {
            What::File { .. } => {
                fs::write(&wait, &item.bytes)?;
                fs::set_permissions(&wait, fs::Permissions::from_mode(0o755))?;
            }
            What::Link { target } => symlink(target, &wait)?,
        }
    }
    let wait = staged(&prefix.join(PLACE));
    made.push(wait.clone());
    fs::write(wait, manifest.text().map_err(|stop| io::Error::other(stop.message))?)
}

/// Removes what was staged, innermost first.
fn undo(made: &[PathBuf]) {
    for path in made.iter().rev() {
        // What cannot be removed was not made, or is no longer ours.
        let _ = if path.is_dir() && !path.is_symlink() { fs::remove_dir(path) } else { fs::remove_file(path) };
    }
}

/// Renames every waiting file to its place, the manifest last: if this breaks off, the next installation finds some files
/// as it wants them and the others as the old manifest has them, and goes on.
fn swap(prefix: &Path, todo: &[Item]) -> io::Result<()> {
    for path in todo.iter().map(|item| item.entry.path.as_str()).chain([PLACE]) {
        let path = prefix.join(path);
        fs::rename(staged(&path), path)?;
    }
    Ok(())
}
