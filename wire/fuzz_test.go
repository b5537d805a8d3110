// This file holds the fuzz target of the frames: any bytes on a connection.

package wire

import (
	"bufio"
	"bytes"
	"runtime"
	"testing"
)

func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9, 1})
	f.Add([]byte{0x7F, 0xFF, 0xFF, 0xFF, 1})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0xFF, 0xFF, 0xFF}) // promises much and has nothing
	f.Fuzz(func(t *testing.T, stream []byte) {
		var frames framePool
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		in := bufio.NewReader(bytes.NewReader(stream))
		at := 0
		for {
			frame, err := frames.read(in)
			if err != nil {
				break
			}
			if !bytes.HasPrefix(stream[at:], frame) || len(frame) < 4 {
				t.Fatalf("at byte %d it read %d bytes that are not there", at, len(frame))
			}
			at += len(frame)
			frames.put(frame)
		}
		runtime.ReadMemStats(&after)
		// What a length promises is taken as it comes.
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+16*len(stream)+5000*bytes.Count(stream, []byte{0})); took > most {
			t.Errorf("%d bytes took %d bytes, want %d at most", len(stream), took, most)
		}
	})
}
