//! Every decision Redial makes, as pure functions of their arguments.
