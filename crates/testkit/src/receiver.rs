//! A receiver: it listens on this machine and gives each connection to a script. What is answered is
//! up to the script; [`converse`] makes one of a function from requests to answers.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How many connections may wait to be taken: a crowd may come all at once.
const MOST_WAITING: u32 = 4_096;
/// How long a receiver waits after it could not take a connection: there may be too many of them.
const BREATH: Duration = Duration::from_millis(1);

/// A receiver; dropping it closes its port.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
    thread: Option<Thread>,
}

/// The thread that a receiver has to itself.
#[derive(Debug)]
struct Thread {
    stop: oneshot::Sender<()>,
    handle: std::thread::JoinHandle<()>,
}

impl Receiver {
    /// Starts one on a free port. The script gets each connection with its number, counted from 0.
    pub fn start<Doing>(
        script: impl Fn(TcpStream, usize) -> Doing + Send + 'static,
    ) -> std::io::Result<Self>
    where
        Doing: Future<Output = ()> + Send + 'static,
    {
        Self::at((Ipv4Addr::LOCALHOST, 0).into(), script)
    }

    /// Starts one at an address.
    pub fn at<Doing>(
        address: SocketAddr,
        script: impl Fn(TcpStream, usize) -> Doing + Send + 'static,
    ) -> std::io::Result<Self>
    where
        Doing: Future<Output = ()> + Send + 'static,
    {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(MOST_WAITING)?;
        let (address, connections) = (listener.local_addr()?, Arc::<AtomicUsize>::default());
        let task = tokio::spawn(accept(listener, Arc::clone(&connections), script));
        Ok(Self { address, connections, task, thread: None })
    }

    /// Starts one on a free port and on a thread of its own, beside what is measured.
    pub fn on_a_thread<Doing>(
        script: impl Fn(TcpStream, usize) -> Doing + Send + 'static,
    ) -> std::io::Result<Self>
    where
        Doing: Future<Output = ()> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut receiver = {
            let _entered = runtime.enter();
            Self::start(script)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("receiver".to_owned());
        let handle = thread.spawn(move || drop(runtime.block_on(stopped)))?;
        receiver.thread = Some(Thread { stop, handle });
        Ok(receiver)
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns how many connections it has taken.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(Thread { stop, handle }) = self.thread.take() {
            drop(stop);
            // A panic in it has been told already.
            drop(handle.join());
        }
    }
}

async fn accept<Doing>(
    listener: TcpListener,
    connections: Arc<AtomicUsize>,
    script: impl Fn(TcpStream, usize) -> Doing + Send,
) where
    Doing: Future<Output = ()> + Send + 'static,
{
    loop {
        // An error here is about one connection, or about too many: the next one may work.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        // Without it answers would wait for more to send; the rest works all the same.
        drop(stream.set_nodelay(true));
        tokio::spawn(script(stream, connections.fetch_add(1, Ordering::SeqCst)));
    }
}

/// Whether a connection is used for more than one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// For as many as come.
    Alive,
    /// For one.
    Once,
}

/// Answers the requests of a connection until it is closed.
pub async fn converse<Answering>(
    stream: TcpStream,
    keeping: Keeping,
    answer: impl Fn(Request<Incoming>) -> Answering,
) where
    Answering: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let answering = answer(request);
        async { Ok::<_, Infallible>(answering.await) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(keeping == Keeping::Alive);
    // A connection that breaks is the sender's business.
    drop(server.serve_connection(TokioIo::new(stream), service).await);
}

/// Reads all of a request; none if it breaks off.
pub async fn whole(request: Request<Incoming>) -> Option<Request<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    Some(Request::from_parts(head, body))
}

/// Makes an answer of nothing but a status.
pub fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::connection::Connection;

    async fn ask(connection: &mut Connection, path: &str) -> Response<Bytes> {
        let request = Request::builder().method(Method::POST).uri(path);
        connection.exchange(request.body(Full::from("ping")).unwrap()).await.unwrap()
    }

    async fn echo(request: Request<Incoming>) -> Response<Full<Bytes>> {
        let request = whole(request).await.unwrap();
        let text = [request.uri().path().as_bytes(), request.body()].concat();
        Response::new(Full::from(text))
    }

    #[tokio::test]
    async fn a_connection_is_used_again_or_once() {
        for (keeping, connections) in [(Keeping::Alive, 1), (Keeping::Once, 2)] {
            let receiver =
                Receiver::start(move |stream, _| converse(stream, keeping, echo)).unwrap();
            let mut connection = Connection::open(receiver.port()).await.unwrap();
            assert_eq!(ask(&mut connection, "/a").await.into_body(), "/aping");
            assert_eq!(ask(&mut connection, "/b").await.into_body(), "/bping");
            assert_eq!(receiver.connections(), connections);
        }
    }

    #[tokio::test]
    async fn a_receiver_on_a_thread_answers_without_this_one_and_closes_its_port() {
        let receiver = Receiver::on_a_thread(|stream, _| {
            converse(stream, Keeping::Alive, async |_| status(StatusCode::IM_A_TEAPOT))
        });
        let receiver = receiver.unwrap();
        let port = receiver.port();
        let mut connection = Connection::open(port).await.unwrap();
        assert_eq!(ask(&mut connection, "/").await.status(), StatusCode::IM_A_TEAPOT);
        drop(receiver);
        assert!(Connection::open(port).await.is_err());
    }
}
