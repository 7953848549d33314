//! Names that a path cannot say are changed in a store of the first version, and listed until they
//! were told.

use domain::ids::{ApplicationId, EndpointId, MessageId};
use store::catalog::{Name, Schemas, Whose};
use store::conformance::Handle;
use store::page::{From, Page};

/// Gives such names to what is in the golden store, and some of the names that it would get to others.
pub(crate) const NAMES: &str = r#"
    update applications set uid = '..' where key = 1;
    update endpoints set uid = '.', settings = '{"origin":"https://receiver.example",
        "event_types":["invoice.paid",".",".."],"description":"a \".\""}' where key = 1;
    update endpoints set uid = '.-renamed-1' where key = 2;
    update messages set event_id = 'batch' where key = 1;
    update messages set event_id = '..' where key = 3;
    update messages set event_id = 'precheck' where key = 4;
    insert into event_types values
        ('.', '{"description":"","archived":false,"deprecated":false}', 1, 1),
        ('.-renamed', '{"description":"","archived":false,"deprecated":false}', 1, 1);
    update tokens set name = '..';
"#;

/// Looks at what has become of them.
pub(crate) async fn check(store: &Handle) {
    let (catalog, ledger) = (&store.catalog, &store.ledger);
    let uid = |text: &str| Name::Uid(text.to_owned());
    let application = catalog.application(Name::Uid("..-renamed-1".to_owned())).await.unwrap();
    assert_eq!(application.revision, 5, "what is cached of it is not used again");
    let endpoint = async |name: &str| {
        catalog.endpoint(application.key, Name::Uid(name.to_owned())).await.unwrap()
    };
    let (renamed, other) = (endpoint(".-renamed-1-2").await, endpoint(".-renamed-1").await);
    assert_eq!((renamed.key.0, other.key.0), (1, 2));
    // There was no event type `..`, so that it matches nothing, as before.
    assert_eq!(renamed.settings.event_types, ["invoice.paid", ".-renamed-2", ".."]);
    assert_eq!(renamed.settings.description, "a \".\"");
    let event_ids = ["batch-renamed-1", "..-renamed-3", "precheck"];
    for (event_id, key) in event_ids.into_iter().zip([1, 3, 4]) {
        let message = ledger.message(application.key, uid(event_id)).await.unwrap();
        assert_eq!(message.key.0, key, "{event_id}");
    }
    let page = Page { from: From::Start, limit: 9 };
    let types = catalog.event_types(Schemas::Shown, page).await.unwrap().entries;
    let types: Vec<_> = types.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(types, [".-renamed", ".-renamed-2", "invoice.paid"]);
    assert_eq!(catalog.token("tok_1".to_owned()).await.unwrap().name, "..-renamed");
    told_once(store, application.id, renamed.id).await;
}

async fn told_once(store: &Handle, application: ApplicationId, endpoint: EndpointId) {
    let catalog = &store.catalog;
    let listed = catalog.renamed(Vec::new()).await.unwrap();
    let messages: Vec<String> = ["batch-renamed-1", "..-renamed-3"]
        .iter()
        .map(|new| listed.iter().find(|one| one.new == **new).unwrap().id.clone())
        .collect();
    assert!(messages.iter().all(|id| id.parse::<MessageId>().is_ok()), "{messages:?}");
    let mut told: Vec<_> = listed
        .iter()
        .map(|one| (one.whose.word(), one.id.as_str(), one.old.as_str(), one.new.as_str()))
        .collect();
    told.sort_by_key(|(_, _, _, new)| *new);
    let (application, endpoint) = (application.to_string(), endpoint.to_string());
    let mut expected = vec![
        (Whose::Application.word(), application.as_str(), "..", "..-renamed-1"),
        (Whose::Endpoint.word(), endpoint.as_str(), ".", ".-renamed-1-2"),
        (Whose::Message.word(), messages[0].as_str(), "batch", "batch-renamed-1"),
        (Whose::Message.word(), messages[1].as_str(), "..", "..-renamed-3"),
        (Whose::EventType.word(), "", ".", ".-renamed-2"),
        (Whose::Token.word(), "tok_1", "..", "..-renamed"),
    ];
    expected.sort_by_key(|(_, _, _, new)| *new);
    assert_eq!(told, expected);
    // Until they were told of, they are listed again.
    assert_eq!(catalog.renamed(Vec::new()).await.unwrap(), listed);
    assert!(catalog.renamed(listed).await.unwrap().is_empty());
    assert!(catalog.renamed(Vec::new()).await.unwrap().is_empty());
}
