package wire

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sealed forbids every change of size: a plugin cannot make the harness die of SIGBUS by shrinking the file.
const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newMemoryFile makes a memory file of n bytes, all of them reserved, with its size sealed. The descriptor is closed at
// exec; a child gets it as one of its extra files.
func newMemoryFile(name string, n uint64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("making a memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.Fallocate(fd, 0, 0, int64(n)); err != nil {
		f.Close()
		return nil, fmt.Errorf("reserving %d bytes of shared memory: %w", n, err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, sealed); err != nil {
		f.Close()
		return nil, fmt.Errorf("sealing a memory file: %w", err)
	}
	return f, nil
}

// mapFile maps n bytes of a memory file for reading and writing. A file that is shorter, or whose size can still shrink
// under the mapping, is refused: touching a page that is gone kills the process.
func mapFile(f *os.File, n uint64) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrWindow, f.Name(), err)
	}
	if st.Size < 0 || uint64(st.Size) < n {
		return nil, fmt.Errorf("%w: %s has %d bytes, need %d", ErrWindow, f.Name(), st.Size, n)
	}
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil, fmt.Errorf("%w: %s is not a memory file of sealed size", ErrWindow, f.Name())
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes of %s: %w", n, f.Name(), err)
	}
	return memory, nil
}

// CreateWindow makes a window in a memory file: the harness's side. The file goes to the plugin as an inherited
// descriptor; the reader stays. Both must be closed.
func CreateWindow(g Geometry) (*os.File, *Reader, error) {
	if err := g.Validate(); err != nil {
		return nil, nil, err
	}
	f, err := newMemoryFile("gpubench-window", g.TotalBytes())
	if err != nil {
		return nil, nil, err
	}
	memory, err := mapFile(f, g.TotalBytes())
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	writeGeometry(memory, g)
	r := newReader(memory, g)
	r.release = unix.Munmap
	return f, r, nil
}

// MapWindow maps the window in f: the plugin's side. The header must hold the geometry that Open named. f may be closed
// afterwards.
func MapWindow(f *os.File, g Geometry) (*Window, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	memory, err := mapFile(f, g.TotalBytes())
	if err != nil {
		return nil, err
	}
	if err := checkGeometry(memory, g); err != nil {
		return nil, errors.Join(err, unix.Munmap(memory))
	}
	return attach(memory, g, unix.Munmap), nil
}
