-- Requests are read in turns by application, so that an application that asks for much hides no other;
-- likewise what is pending for deleted endpoints is buried. An earlier version finds tombstones by the index
-- `endpoints_deleted`.
CREATE INDEX requests_application ON requests (application);
CREATE INDEX tombstones ON endpoints (application, key) WHERE state = 3 AND emptied = 0;
