//! How much the owner of an application may set up.
//!
//! What is there stays and works, also beyond a cap that was lowered since. A change that adds to it is
//! refused, and hears which cap it met, how much there is, and which setting of the operator says so.

use std::sync::Arc;

use store::catalog::{Admission, Endpoint, Growth, Size};

use super::endpoints::Edit;
use super::error::RefusalKind;
use super::{App, Error};
use crate::config::Caps;

/// What of an application or an endpoint may not grow without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Endpoints,
    Patterns,
    Bytes,
}

/// Whose size it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Application,
    Endpoint,
}

impl Measure {
    const ALL: [Self; 3] = [Self::Endpoints, Self::Patterns, Self::Bytes];

    const fn of(self, size: &Size) -> u64 {
        match self {
            Self::Endpoints => size.endpoints,
            Self::Patterns => size.patterns,
            Self::Bytes => size.bytes,
        }
    }

    const fn counted(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints",
            Self::Patterns => "event types and channels in its filters",
            Self::Bytes => "bytes of settings (filters, headers, metadata and the rest, as JSON)",
        }
    }

    /// Returns the name of the setting that caps it.
    const fn setting(self, whose: Whose) -> &'static str {
        match (self, whose) {
            (Self::Endpoints, Whose::Application | Whose::Endpoint) => {
                "limits.endpoints_per_application"
            }
            (Self::Patterns, Whose::Application) => "limits.patterns_per_application",
            (Self::Patterns, Whose::Endpoint) => "limits.patterns_per_endpoint",
            (Self::Bytes, Whose::Application) => "limits.bytes_per_application",
            (Self::Bytes, Whose::Endpoint) => "limits.bytes_per_endpoint",
        }
    }
}

impl Whose {
    const fn named(self) -> &'static str {
        match self {
            Self::Application => "this application",
            Self::Endpoint => "this endpoint",
        }
    }
}

impl Caps {
    /// Checks an endpoint as a change makes it.
    ///
    /// # Errors
    /// If it grows beyond what one endpoint may have.
    pub(super) fn check(&self, before: Option<&Endpoint>, after: &Endpoint) -> Result<(), Error> {
        let before = before.map_or(Size::default(), Size::of);
        grow(Whose::Endpoint, &Growth { before, after: Size::of(after) }, &self.endpoint)
    }

    /// Checks how many event types a request names, before each is looked up.
    ///
    /// # Errors
    /// If no endpoint may have as many, and this one has fewer.
    pub(super) fn check_patterns(
        &self,
        before: Option<&Endpoint>,
        number: usize,
    ) -> Result<(), Error> {
        let before = before.map_or(Size::default(), Size::of);
        let patterns = u64::try_from(number).unwrap_or(u64::MAX);
        grow(
            Whose::Endpoint,
            &Growth { before, after: Size { patterns, ..before } },
            &self.endpoint,
        )
    }

    /// Returns what a store is to ask before it lets an application grow.
    pub(super) fn admission(&self) -> Admission {
        let most = self.application;
        Box::new(move |growth| Ok(grow(Whose::Application, growth, &most)?))
    }
}

/// Refuses what grows beyond a cap.
fn grow(whose: Whose, Growth { before, after }: &Growth, most: &Size) -> Result<(), Error> {
    for measure in Measure::ALL {
        let (has, wants, most) = (measure.of(before), measure.of(after), measure.of(most));
        if wants > has && wants > most {
            let text = format!(
                "{} may have {most} {}; it has {has}, and this would make it {wants}; remove some, \
                 or have the operator raise {}",
                whose.named(),
                measure.counted(),
                measure.setting(whose),
            );
            return Err(Error::refused(RefusalKind::LimitReached, text));
        }
    }
    Ok(())
}

impl App {
    /// Returns an edit that also keeps the caps of one endpoint.
    pub(super) fn capped(&self, edit: Edit) -> Edit {
        let caps = self.settings.caps;
        Arc::new(move |row| {
            let after = edit(row)?;
            caps.check(Some(row), &after)?;
            Ok(after)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Size = Size { endpoints: 3, patterns: 10, bytes: 100 };

    fn size(endpoints: u64, patterns: u64, bytes: u64) -> Size {
        Size { endpoints, patterns, bytes }
    }

    #[test]
    fn only_what_grows_beyond_a_cap_is_refused_and_named() {
        let cases = [
            (size(2, 9, 99), size(3, 10, 100), None),
            (size(3, 10, 100), size(4, 10, 100), Some("limits.endpoints_per_application")),
            (size(1, 10, 10), size(1, 11, 10), Some("limits.patterns_per_application")),
            (size(1, 1, 100), size(1, 1, 101), Some("limits.bytes_per_application")),
            // What was beyond a cap before may shrink, and stay as large.
            (size(9, 50, 500), size(8, 50, 400), None),
            (size(9, 50, 500), size(9, 50, 500), None),
            (size(9, 50, 500), size(8, 51, 400), Some("limits.patterns_per_application")),
        ];
        for (before, after, setting) in cases {
            let grown = grow(Whose::Application, &Growth { before, after }, &MOST);
            let text = grown.err().map(|error| error.to_string());
            match (&text, setting) {
                (None, None) => {}
                (Some(text), Some(setting)) => assert!(text.ends_with(setting), "{text}"),
                _ => panic!("{before:?} to {after:?}: {text:?}"),
            }
        }
    }

    #[test]
    fn a_refusal_says_how_much_there_is_and_may_be() {
        let growth = Growth { before: size(3, 0, 0), after: size(4, 0, 0) };
        let refused = grow(Whose::Application, &growth, &MOST).unwrap_err().to_string();
        let wanted = "this application may have 3 endpoints; it has 3, and this would make it 4; \
                      remove some, or have the operator raise limits.endpoints_per_application";
        assert_eq!(refused, wanted);
    }
}
