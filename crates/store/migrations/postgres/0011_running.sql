-- The replay tasks that have more to do, for the node that runs them and for the cap of an application.
create index replay_tasks_running on replay_tasks (id) where state = 0;
create index replay_tasks_running_of on replay_tasks (application) where state = 0;
