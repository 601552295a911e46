//! Where the profile lies.

use std::path::{Path, PathBuf};

/// Where what is learned about this chip is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// Nowhere, by wish.
    Off,
    /// Nowhere, since no folder is known.
    NoHome,
    /// In this file.
    File(PathBuf),
}

impl Keep {
    /// By `TRI_PROFILE`, else below `XDG_STATE_HOME`, else below `HOME`. A relative `XDG_STATE_HOME` does not count, as its
    /// specification says.
    pub(super) fn of(wish: Option<PathBuf>, state: Option<PathBuf>, home: Option<PathBuf>) -> Keep {
        let state = state.filter(|path| path.is_absolute()).or_else(|| home.map(|home| home.join(".local/state")));
        match (wish, state) {
            (Some(wish), _) if wish == Path::new("off") => Keep::Off,
            (Some(file), _) => Keep::File(file),
            (None, Some(state)) => Keep::File(state.join("ggml-tri/profile.db")),
            (None, None) => Keep::NoHome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_lies_where_it_is_wished_else_below_the_state_folder_else_below_home() {
        let of = |wish: &str, state: &str, home: &str| {
            let path = |text: &str| Some(PathBuf::from(text)).filter(|path| path != Path::new(""));
            Keep::of(path(wish), path(state), path(home))
        };
        assert_eq!(of("off", "/s", "/h"), Keep::Off);
        assert_eq!(of("./off", "/s", "/h"), Keep::File("./off".into()));
        assert_eq!(of("", "/s", "/h"), Keep::File("/s/ggml-tri/profile.db".into()));
        assert_eq!(of("", "s", "/h"), Keep::File("/h/.local/state/ggml-tri/profile.db".into()));
        assert_eq!(of("", "", ""), Keep::NoHome);
    }
}
