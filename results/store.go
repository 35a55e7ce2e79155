package results

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// The names of the files of a run directory.
const (
	RunFile    = "run.json"
	TrialsFile = "trials.jsonl"
	lockFile   = "lock"
	seriesDir  = "series"
)

// maxTrialLineBytes bounds one line of trials.jsonl; a longer one is damage, not data.
const maxTrialLineBytes = 64 << 20

// Errors of the store. Each is wrapped with the path and what to do.
var (
	ErrLocked    = errors.New("another run writes to this directory")
	ErrCorrupt   = errors.New("the run directory is damaged")
	ErrSchema    = errors.New("the run directory was written by a newer version")
	ErrDiskFull  = errors.New("the disk is full")
	ErrNotARun   = errors.New("not a run directory")
	ErrExists    = errors.New("the directory already holds a run")
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
	errTornWrite = errors.New("torn last line")
)

// Store is an open run directory that this process may append to.
type Store struct {
	dir    string
	lock   *os.File
	trials *os.File
	size   int64 // bytes of trials.jsonl that are known to be whole
}

// Create makes dir (its parent must exist or be creatable), takes its lock and writes run.json durably. It fails with
// ErrExists when the directory already holds a run.
func Create(dir string, run *Run) (*Store, error) {
	if err := os.MkdirAll(filepath.Join(dir, seriesDir), 0o755); err != nil {
		return nil, plain(err, dir, "choose another directory with --out")
	}
	s, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, RunFile)); err == nil {
		s.Close()
		return nil, fmt.Errorf("%w: %s; resume it with: gpubench run --resume %s", ErrExists, dir, dir)
	}
	run.Schema = SchemaVersion
	if err := WriteFileDurably(filepath.Join(dir, RunFile), run); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.openTrials(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Resume opens a run directory for appending. A torn last line is cut off and reported as a warning.
func Resume(dir string) (s *Store, run *Run, trials []Trial, warnings []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, RunFile)); err != nil {
		return nil, nil, nil, nil, fmt.Errorf("%w: %s has no %s", ErrNotARun, dir, RunFile)
	}
	if s, err = lockDir(dir); err != nil {
		return nil, nil, nil, nil, err
	}
	run, trials, whole, warnings, err := read(dir)
	if err == nil {
		err = s.openTrials()
	}
	if err == nil && s.size > whole {
		if err = s.trials.Truncate(whole); err == nil {
			s.size = whole
			err = s.trials.Sync()
		}
	}
	if err != nil {
		s.Close()
		return nil, nil, nil, nil, err
	}
	return s, run, trials, warnings, nil
}

// Read reads a run directory without locking it: reports of a finished or running run.
func Read(dir string) (run *Run, trials []Trial, warnings []string, err error) {
	run, trials, _, warnings, err = read(dir)
	return run, trials, warnings, err
}

// Dir returns the directory.
func (s *Store) Dir() string { return s.dir }

// Append writes one trial and syncs it. After an error (a full disk, say) the file holds what it held before, and
// everything appended earlier stays readable.
func (s *Store) Append(t *Trial) error {
	t.Schema = SchemaVersion
	line, err := encodeTrial(t)
	if err != nil {
		return err
	}
	_, err = s.trials.WriteAt(line, s.size)
	if err == nil {
		err = s.trials.Sync()
	}
	if err != nil {
		_ = s.trials.Truncate(s.size)
		return plain(err, s.trials.Name(), fmt.Sprintf("free some space, then: gpubench run --resume %s", s.dir))
	}
	s.size += int64(len(line))
	return nil
}

// AppendSeries keeps the curves of a trial beside the trials. Its loss is no loss of results, so it is not synced.
func (s *Store) AppendSeries(trialID string, v any) error {
	name := SeriesPath(s.dir, trialID)
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	if err := json.NewEncoder(zw).Encode(v); err != nil {
		return err
	}
	if err := zw.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(name, buf.Bytes(), 0o644); err != nil {
		_ = os.Remove(name)
		return plain(err, name, "the report will lack the curves of this trial")
	}
	return nil
}

// SeriesPath is where the curves of a trial lie.
func SeriesPath(dir, trialID string) string {
	return filepath.Join(dir, seriesDir, trialID+".json.gz")
}

// ReadSeries reads what AppendSeries wrote into v; fs.ErrNotExist when there is none.
func ReadSeries(dir, trialID string, v any) error {
	f, err := os.Open(SeriesPath(dir, trialID))
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return json.NewDecoder(zr).Decode(v)
}

// Close releases the directory.
func (s *Store) Close() error {
	var err error
	if s.trials != nil {
		err = s.trials.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

func lockDir(dir string) (*Store, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, plain(err, dir, "choose another directory with --out")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %s; wait for it, or choose another directory with --out", ErrLocked, dir)
	}
	return &Store{dir: dir, lock: f}, nil
}

func (s *Store) openTrials() error {
	name := filepath.Join(s.dir, TrialsFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return plain(err, name, "choose another directory with --out")
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	s.trials, s.size = f, st.Size()
	return nil
}

type trialLine struct {
	CRC32C string          `json:"crc32c"`
	Trial  json.RawMessage `json:"trial"`
}

func encodeTrial(t *Trial) ([]byte, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("trial %s: %w", t.ID, err)
	}
	line := fmt.Appendf(nil, `{"crc32c":"%08x","trial":`, crc32.Checksum(raw, castagnoli))
	return append(append(line, raw...), "}\n"...), nil
}

func decodeTrial(line []byte, t *Trial) error {
	var l trialLine
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	if got := fmt.Sprintf("%08x", crc32.Checksum(l.Trial, castagnoli)); got != l.CRC32C {
		return fmt.Errorf("checksum %s, the line says %s", got, l.CRC32C)
	}
	return json.Unmarshal(l.Trial, t)
}

func read(dir string) (run *Run, trials []Trial, whole int64, warnings []string, err error) {
	run = &Run{}
	raw, err := os.ReadFile(filepath.Join(dir, RunFile))
	if err != nil {
		return nil, nil, 0, nil, fmt.Errorf("%w: %s has no readable %s", ErrNotARun, dir, RunFile)
	}
	if err := json.Unmarshal(raw, run); err != nil {
		return nil, nil, 0, nil, fmt.Errorf("%w: %s: %s; its trials are still in %s", ErrCorrupt, filepath.Join(dir, RunFile), err, TrialsFile)
	}
	if run.Schema > SchemaVersion {
		return nil, nil, 0, nil, fmt.Errorf("%w: %s has schema %d, this gpubench knows up to %d", ErrSchema, dir, run.Schema, SchemaVersion)
	}
	trials, whole, err = readTrials(filepath.Join(dir, TrialsFile))
	if errors.Is(err, errTornWrite) {
		warnings = append(warnings, fmt.Sprintf("%s: the last line was cut off by a crash; the trial in flight is lost and will run again", filepath.Join(dir, TrialsFile)))
		err = nil
	}
	return run, trials, whole, warnings, err
}

// readTrials reads the whole lines; whole is the offset behind the last good one.
func readTrials(name string) (trials []Trial, whole int64, err error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, plain(err, name, "check the permissions")
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := readLine(r)
		if err == io.EOF {
			return trials, whole, nil
		}
		var t Trial
		var bad error
		if err == nil {
			bad = decodeTrial(line, &t)
		} else {
			bad = err
		}
		if bad != nil {
			if _, peek := r.Peek(1); peek == io.EOF && (err == io.ErrUnexpectedEOF || !bytes.HasSuffix(line, []byte("\n"))) {
				return trials, whole, errTornWrite
			}
			return nil, 0, fmt.Errorf("%w: %s:%d: %s; remove that line to keep the rest, or move the directory away", ErrCorrupt, name, n, bad)
		}
		trials = append(trials, t)
		whole += int64(len(line))
	}
}

// readLine returns a line with its newline; io.ErrUnexpectedEOF with what there is when the file ends inside a line.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case err == bufio.ErrBufferFull:
			if len(line) > maxTrialLineBytes {
				return line, fmt.Errorf("a line is longer than %d bytes (maxTrialLineBytes)", maxTrialLineBytes)
			}
		case err == io.EOF && len(line) == 0:
			return nil, io.EOF
		case err == io.EOF:
			return line, io.ErrUnexpectedEOF
		default:
			return line, err
		}
	}
}

// WriteFileDurably writes v as indented JSON so that after a crash the file holds either its old or its new content.
func WriteFileDurably(name string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteBytesDurably(name, append(raw, '\n'))
}

// WriteBytesDurably is WriteFileDurably for bytes.
func WriteBytesDurably(name string, raw []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return plain(err, name, "choose another directory with --out")
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
			err = plain(err, name, "choose another directory with --out")
		}
	}()
	if _, err = tmp.Write(raw); err != nil {
		return err
	}
	if err = tmp.Chmod(0o644); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), name); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// plain turns an operating system error into one line with what to do.
func plain(err error, where, todo string) error {
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %s; %s", ErrDiskFull, where, todo)
	case errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s cannot be written (%w); %s", where, unwrapPath(err), todo)
	}
	return fmt.Errorf("%s: %w; %s", where, unwrapPath(err), todo)
}

func unwrapPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
