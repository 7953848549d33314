//! Headers as one text.
//!
//! An attempt records a dozen of them, and hardly anybody ever looks. So they are written once, as
//! they are stored, a JSON list of pairs, and taken apart only when somebody does.

use std::fmt;

use crate::Error;

/// Names and values in their order, a name as often as it came.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(String);

impl Headers {
    /// Makes an empty list with room for so many bytes of text.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    /// Takes a list from its stored form.
    ///
    /// # Errors
    /// If it is no list of pairs.
    pub fn from_json(text: String) -> Result<Self, Error> {
        match serde_json::from_str::<Vec<(String, String)>>(&text) {
            Ok(pairs) if pairs.is_empty() => Ok(Self::default()),
            Ok(_) => Ok(Self(text)),
            Err(error) => {
                Err(Error::Damaged { what: "headers".to_owned(), text: error.to_string() })
            }
        }
    }

    /// Returns the stored form.
    #[must_use]
    pub fn as_json(&self) -> &str {
        if self.0.is_empty() { "[]" } else { &self.0 }
    }

    /// Adds one at the end.
    pub fn push(&mut self, name: &str, value: &str) {
        if self.0.pop().is_some() {
            self.0.push(',');
        } else {
            self.0.push('[');
        }
        self.0.push('[');
        push_text(&mut self.0, name);
        self.0.push(',');
        push_text(&mut self.0, value);
        self.0.push_str("]]");
    }

    /// Returns a copy with room for so many bytes more.
    #[must_use]
    pub fn copy_with_room(&self, bytes: usize) -> Self {
        let mut text = String::with_capacity(self.0.len() + bytes);
        text.push_str(&self.0);
        Self(text)
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns names and values.
    #[must_use]
    pub fn pairs(&self) -> Vec<(String, String)> {
        // It was written here, or read by `from_json`.
        serde_json::from_str(self.as_json()).unwrap_or_default()
    }

    /// Returns how many bytes the stored form has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_json().len()
    }
}

/// Writes a JSON text. Nearly none has anything in it that JSON writes differently.
fn push_text(into: &mut String, text: &str) {
    let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        into.push('"');
        into.push_str(text);
        into.push('"');
    } else {
        into.push_str(&serde_json::Value::from(text).to_string());
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_json())
    }
}

impl<Name: AsRef<str>, Value: AsRef<str>> FromIterator<(Name, Value)> for Headers {
    fn from_iter<T: IntoIterator<Item = (Name, Value)>>(pairs: T) -> Self {
        let mut headers = Self::default();
        for (name, value) in pairs {
            headers.push(name.as_ref(), value.as_ref());
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: [(&str, &str); 4] =
        [("b", "1"), ("a", "\"quoted\" \\ ü\u{1}\n"), ("b", ""), ("x", "a\u{7f}b")];

    #[test]
    fn what_is_written_is_what_a_json_list_of_pairs_would_be() {
        let headers: Headers = ODD.into_iter().collect();
        assert_eq!(headers.as_json(), serde_json::to_string(&ODD.to_vec()).unwrap());
        assert_eq!(Headers::default().as_json(), "[]");
    }

    #[test]
    fn what_is_read_back_is_the_same() {
        let headers: Headers = ODD.into_iter().collect();
        let read = Headers::from_json(headers.as_json().to_owned()).unwrap();
        assert_eq!(read, headers);
        let pairs: Vec<_> = ODD.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(read.pairs(), pairs);
        assert_eq!(Headers::from_json("[]".to_owned()).unwrap(), Headers::default());
        assert!(Headers::from_json("{}".to_owned()).is_err());
    }
}
