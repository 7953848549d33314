-- The replay tasks that have more to do, for the node that runs them and for the cap of an application.
CREATE INDEX replay_tasks_running ON replay_tasks (id) WHERE state = 0;
CREATE INDEX replay_tasks_running_of ON replay_tasks (application) WHERE state = 0;
