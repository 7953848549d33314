-- Requests are read in turns by application, so that an application that asks for much hides no other.
create index requests_application on requests (application, number);
