package wire

import (
	"errors"
	"testing"
	"time"
	"unsafe"
)

func TestSlotLiesWhereTheDocumentSays(t *testing.T) {
	var p slotPage
	for name, c := range map[string]struct{ got, want uintptr }{
		"turn": {unsafe.Offsetof(p.turn), 64}, "server sleeps": {unsafe.Offsetof(p.serverSleeps), 68}, "client sleeps": {unsafe.Offsetof(p.clientSleeps), 72},
		"request": {unsafe.Offsetof(p.request), 128}, "answer": {unsafe.Offsetof(p.answer), 192},
		"stream": {unsafe.Offsetof(p.request.Stream), 4}, "addr": {unsafe.Offsetof(p.request.Addr), 8}, "size": {unsafe.Offsetof(p.request.Size), 16},
		"aux": {unsafe.Offsetof(p.request.Aux), 24}, "value0": {unsafe.Offsetof(p.answer.Value0), 8}, "value1": {unsafe.Offsetof(p.answer.Value1), 16},
		"now": {unsafe.Offsetof(p.answer.NowNs), 24}, "spent": {unsafe.Offsetof(p.answer.SpentNs), 32},
	} {
		if c.got != c.want {
			t.Errorf("%s lies at byte %d, documented is %d", name, c.got, c.want)
		}
	}
}

// echo answers with the arguments.
func echo(q *Request, a *Answer) {
	*a = Answer{Status: uint32(q.Op), Value0: q.Addr, Value1: q.Size, NowNs: q.Aux, SpentNs: uint64(q.Stream)}
}

func serve(s *Slot, pause time.Duration) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(func(q *Request, a *Answer) {
			time.Sleep(pause)
			echo(q, a)
		})
	}()
	return done
}

func TestSlotCarriesCalls(t *testing.T) {
	for name, pause := range map[string]time.Duration{"spinning": 0, "asleep": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			f, server, err := CreateSlot()
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			client, err := MapSlot(f)
			if err != nil {
				t.Fatal(err)
			}
			done := serve(server, pause)
			for i := range uint64(50) {
				var a Answer
				if err := client.Call(&Request{Op: OpMalloc, Stream: 7, Addr: i, Size: i + 1, Aux: i + 2}, &a); err != nil {
					t.Fatal(err)
				}
				if want := (Answer{Status: 3, Value0: i, Value1: i + 1, NowNs: i + 2, SpentNs: 7}); a != want {
					t.Fatalf("call %d: %+v, want %+v", i, a, want)
				}
			}
			client.Abort()
			<-done
			var a Answer
			if err := client.Call(&Request{Op: OpNop}, &a); !errors.Is(err, ErrSlotClosed) {
				t.Errorf("a call on a closed slot: %v", err)
			}
			if err := errors.Join(client.Close(), server.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A call in progress ends when somebody closes the slot on behalf of a device that has died.
func TestAbortEndsACallInProgress(t *testing.T) {
	s := NewSlot()
	failed := make(chan error)
	go func() {
		var a Answer
		failed <- s.Call(&Request{Op: OpMalloc}, &a)
	}()
	time.Sleep(5 * time.Millisecond)
	s.Abort()
	if err := <-failed; !errors.Is(err, ErrSlotClosed) {
		t.Error(err)
	}
}

func TestMapSlotRefusesOtherFiles(t *testing.T) {
	f, s, err := CreateSlot()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer s.Close()
	s.page.version = 9
	if _, err := MapSlot(f); !errors.Is(err, ErrSlot) {
		t.Error(err)
	}
}

func BenchmarkSlotCall(b *testing.B) {
	s := NewSlot()
	done := serve(s, 0)
	var a Answer
	q := Request{Op: OpNop}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Call(&q, &a); err != nil {
			b.Fatal(err)
		}
	}
	s.Abort()
	<-done
}
