//! Policies that came with messages: documents that were read, the last few of them.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::policy::Policy;

use crate::roster::read_policy;

/// How many are remembered.
const REMEMBERED: usize = 16;

/// The documents read last.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    read: VecDeque<(String, Option<Arc<Policy>>)>,
}

impl Documents {
    /// Returns the policy in a document; none if it does not read, so that the next one outwards
    /// applies.
    pub(crate) fn policy(&mut self, document: &str) -> Option<Arc<Policy>> {
        if let Some((_, policy)) = self.read.iter().find(|(text, _)| text == document) {
            return policy.clone();
        }
        let value = serde_json::from_str(document).ok();
        let policy = value.and_then(|value| read_policy(&value).ok()).map(|read| read.policy);
        if self.read.len() >= REMEMBERED {
            self.read.pop_front();
        }
        self.read.push_back((document.to_owned(), policy.clone()));
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_once_and_a_broken_one_is_none() {
        let mut documents = Documents::default();
        let first = documents.policy("\"stripe\"").unwrap();
        assert!(Arc::ptr_eq(&first, &documents.policy("\"stripe\"").unwrap()));
        assert_eq!(documents.policy("{ not json"), None);
        for number in 0..REMEMBERED {
            documents.policy(&number.to_string());
        }
        assert!(!Arc::ptr_eq(&first, &documents.policy("\"stripe\"").unwrap()));
        assert_eq!(documents.read.len(), REMEMBERED);
    }
}
