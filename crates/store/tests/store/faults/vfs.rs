//! The way from SQLite to a [`Disk`]: a file system of SQLite's ("VFS"), in C's terms.
//!
//! It is the default one of the process, and hands on whatever is not in a mounted directory to
//! the one that was the default before. It decides nothing: every rule is in `disk` and `locks`.

#![expect(unsafe_code, reason = "SQLite calls us through pointers, and only here")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::ffi;

use super::disk::Disk;

static MOUNTED: Mutex<BTreeMap<PathBuf, Arc<Disk>>> = Mutex::new(BTreeMap::new());
static ORDINARY: OnceLock<Ordinary> = OnceLock::new();

/// The file system that was the default one before.
struct Ordinary(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite's file systems are made to be called from all threads, and live forever.
unsafe impl Send for Ordinary {}
// SAFETY: as above.
unsafe impl Sync for Ordinary {}

/// A directory whose files are on a disk of ours, as long as this lives.
pub(super) struct Mount {
    directory: PathBuf,
}

impl Mount {
    /// Puts a disk in the place of a directory.
    pub(super) fn new(directory: &Path, disk: Arc<Disk>) -> Self {
        ORDINARY.get_or_init(register);
        let directory = directory.canonicalize().unwrap();
        mounted().insert(directory.clone(), disk);
        Self { directory }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        mounted().remove(&self.directory);
    }
}

fn mounted() -> MutexGuard<'static, BTreeMap<PathBuf, Arc<Disk>>> {
    MOUNTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds the disk that a path is on, and the file's name there.
fn find(path: *const c_char) -> Option<(Arc<Disk>, String)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: SQLite passes names that end in a zero byte and live during the call.
    let path = Path::new(unsafe { CStr::from_ptr(path) }.to_str().ok()?);
    let disk = mounted().get(path.parent()?)?.clone();
    Some((disk, path.file_name()?.to_str()?.to_owned()))
}

fn register() -> Ordinary {
    // SAFETY: the default file system is always there. Ours is a copy of it that names functions
    // of the right types and is never freed; the extension is a function that is never unloaded.
    unsafe {
        let ordinary = ffi::sqlite3_vfs_find(null());
        let ours = ffi::sqlite3_vfs {
            szOsFile: (*ordinary).szOsFile.max(size_of::<Handle>().try_into().unwrap()),
            pNext: null_mut(),
            zName: c"redial-faults".as_ptr(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            ..*ordinary
        };
        assert_eq!(ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 1), ffi::SQLITE_OK);
        assert_eq!(ffi::sqlite3_auto_extension(Some(begin_normal)), ffi::SQLITE_OK);
        Ordinary(ordinary)
    }
}

/// Begins each connection to a disk that is to be NORMAL with that; [`control`] keeps it so.
unsafe extern "C" fn begin_normal(
    connection: *mut ffi::sqlite3,
    _error: *mut *mut c_char,
    _api: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the connection has just been opened, and nobody else has it yet.
    unsafe {
        let path = ffi::sqlite3_db_filename(connection, c"main".as_ptr());
        if !find(path).is_some_and(|(disk, _)| disk.is_normal()) {
            return ffi::SQLITE_OK;
        }
        let sql = c"PRAGMA main.synchronous = NORMAL /* of the test */";
        ffi::sqlite3_exec(connection, sql.as_ptr(), None, null_mut(), null_mut())
    }
}

/// What SQLite keeps for an open file: its own part first.
#[repr(C)]
struct Handle {
    base: ffi::sqlite3_file,
    file: *mut Open,
}

/// An open file.
struct Open {
    disk: Arc<Disk>,
    file: usize,
    handle: u64,
    begun: bool,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let Some((disk, name)) = find(name) else {
        let ordinary = ordinary();
        // SAFETY: the arguments are as SQLite gave them, and the space it set aside is enough for
        // either kind of file.
        return unsafe { (*ordinary).xOpen.unwrap()(ordinary, name, file, flags, out_flags) };
    };
    let handle = file.cast::<Handle>();
    let opened = disk.open(&name, flags);
    // SAFETY: SQLite set aside `szOsFile` bytes for the handle, which is its own until closed.
    unsafe {
        (*handle).base.pMethods = null();
        let file = match opened {
            Ok(file) => file,
            Err(code) => return code,
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let open = Open { disk, file, handle: number, begun: false };
        (*handle).file = Box::into_raw(Box::new(open));
        (*handle).base.pMethods = &raw const METHODS;
        if let Some(out_flags) = out_flags.as_mut() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_directory: c_int,
) -> c_int {
    match find(name) {
        Some((disk, name)) => code(disk.delete(&name, sync_directory != 0)),
        None => {
            let ordinary = ordinary();
            // SAFETY: the arguments are as SQLite gave them.
            unsafe { (*ordinary).xDelete.unwrap()(ordinary, name, sync_directory) }
        }
    }
}

unsafe extern "C" fn access(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    match find(name) {
        Some((disk, name)) => {
            // SAFETY: SQLite wants the answer there.
            unsafe { *answer = c_int::from(disk.exists(&name)) };
            ffi::SQLITE_OK
        }
        None => {
            let ordinary = ordinary();
            // SAFETY: the arguments are as SQLite gave them.
            unsafe { (*ordinary).xAccess.unwrap()(ordinary, name, flags, answer) }
        }
    }
}

fn ordinary() -> *mut ffi::sqlite3_vfs {
    ORDINARY.get().unwrap().0
}

fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(ffi::SQLITE_OK)
}

/// Returns the open file behind a handle.
///
/// # Safety
/// The handle must have been opened by [`open`] and not be closed yet. One connection uses its
/// handles from one thread at a time, so nobody else has the file at the same time.
unsafe fn opened<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: `open` put a box there, and only `close` takes it away.
    unsafe { &mut *(*file.cast::<Handle>()).file }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: it is closed once, and nothing of it is used afterwards.
    let open = unsafe { Box::from_raw((*file.cast::<Handle>()).file) };
    open.disk.with_locks(open.file, |locks| locks.lower(open.handle, ffi::SQLITE_LOCK_NONE));
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let (length, offset) = (usize::try_from(length).unwrap(), usize::try_from(offset).unwrap());
    // SAFETY: the file is open, and SQLite wants so many bytes written there.
    let (open, into) =
        unsafe { (opened(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), length)) };
    let found = open.disk.read(open.file, offset, into);
    into[found..].fill(0);
    if found == length { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let (length, offset) = (usize::try_from(length).unwrap(), usize::try_from(offset).unwrap());
    // SAFETY: the file is open, and so many bytes are to be read there.
    let (open, from) =
        unsafe { (opened(file), std::slice::from_raw_parts(from.cast::<u8>(), length)) };
    code(open.disk.write(open.file, offset, from))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    open.disk.truncate(open.file, usize::try_from(size).unwrap());
    ffi::SQLITE_OK
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    code(open.disk.sync(open.file))
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    answer: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and SQLite wants the answer there.
    unsafe {
        let open = opened(file);
        *answer = open.disk.size(open.file).try_into().unwrap();
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    code(open.disk.with_locks(open.file, |locks| locks.raise(open.handle, level)))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    open.disk.with_locks(open.file, |locks| locks.lower(open.handle, level));
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(
    file: *mut ffi::sqlite3_file,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: the file is open, and SQLite wants the answer there.
    unsafe {
        let open = opened(file);
        *answer = open.disk.with_locks(open.file, |locks| locks.is_reserved()).into();
    }
    ffi::SQLITE_OK
}

/// Answers that nothing is mapped, and takes notice of pragmas: with a disk that is to be NORMAL,
/// the first one about it counts, which is [`begin_normal`]'s, and later ones are said to have been
/// obeyed.
unsafe extern "C" fn control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    match operation {
        ffi::SQLITE_FCNTL_MMAP_SIZE => {
            // SAFETY: the argument of this operation is a number that is to be replaced.
            unsafe { *argument.cast::<i64>() = 0 };
            ffi::SQLITE_OK
        }
        ffi::SQLITE_FCNTL_PRAGMA => {
            // SAFETY: the file is open, and the argument of this operation is an array whose
            // second entry is the pragma's name.
            let (open, pragma) =
                unsafe { (opened(file), CStr::from_ptr(*argument.cast::<*const c_char>().add(1))) };
            let counts = pragma.to_bytes().eq_ignore_ascii_case(b"synchronous");
            if counts && open.disk.is_normal() && std::mem::replace(&mut open.begun, true) {
                return ffi::SQLITE_OK;
            }
            ffi::SQLITE_NOTFOUND
        }
        _ => ffi::SQLITE_NOTFOUND,
    }
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    super::platter::SECTOR.try_into().unwrap()
}

/// Promises what SQLite's own file system does: a write that is torn leaves what is beside it.
unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    number: c_int,
    size: c_int,
    extend: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    let region = (usize::try_from(number).unwrap(), usize::try_from(size).unwrap());
    // SAFETY: the file is open, and SQLite wants the address there, or none. The memory lives
    // until the last handle that mapped it has unmapped it.
    unsafe {
        let open = opened(file);
        let map = |shared: &mut super::locks::Shared| shared.map(open.handle, region, extend != 0);
        let found = open.disk.with_shared(open.file, map);
        *answer = found.map_or(null_mut(), |region| region.as_ptr().cast());
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let run = (usize::try_from(first).unwrap(), usize::try_from(count).unwrap());
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    code(open.disk.with_shared(open.file, |shared| {
        if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            shared.unlock(open.handle, run.0, run.1);
            return Ok(());
        }
        shared.lock(open.handle, run, flags & ffi::SQLITE_SHM_EXCLUSIVE != 0)
    }))
}

unsafe extern "C" fn shm_barrier(_file: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    open.disk.with_shared(open.file, |shared| shared.unmap(open.handle));
    ffi::SQLITE_OK
}
