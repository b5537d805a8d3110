// This file holds the filler that values are made of: text that depends on
// nothing but the event and the seed, so that it need not be stored to be verified.

package clients

import (
	"bytes"
	"encoding/binary"
)

// state is where the filler of an event begins: FNV-1a over its identity, mixed
// with the seed.
func (v *Events) state(identity []byte) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, c := range identity {
		h = (h ^ uint64(c)) * prime
	}
	return mix(h ^ mix(v.seed))
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): a good hash of
// eight bytes to eight bytes.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// A block of filler is half a word that comes again and again, as the names of
// fields do, and half text that hardly compresses, as values do.
const (
	blockLength = 16
	words       = `,"user":,"item":"time":1,"shop":,"name":,"page":,"code":,"host":` +
		`,"type":,"tags":,"size":,"port":,"zone":,"rate":,"unit":,"path":`
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
)

// fillBlock makes the block with the given number.
func fillBlock(block *[blockLength]byte, state uint64, number int) {
	random := mix(state + uint64(number))
	word := random & 15
	random >>= 4
	copy(block[:8], words[8*word:8*word+8])
	for i := 8; i < blockLength; i++ {
		block[i] = letters[random&63]
		random >>= 6
	}
}

func appendFiller(to []byte, size int, state uint64) []byte {
	var block [blockLength]byte
	for number := 0; size > 0; number++ {
		fillBlock(&block, state, number)
		n := min(size, blockLength)
		to = append(to, block[:n]...)
		size -= n
	}
	return to
}

func isFiller(value []byte, state uint64) bool {
	var block [blockLength]byte
	for number := 0; len(value) > 0; number++ {
		fillBlock(&block, state, number)
		n := min(len(value), blockLength)
		if !bytes.Equal(value[:n], block[:n]) {
			return false
		}
		value = value[n:]
	}
	return true
}

const traceLength = 16 // hexadecimal digits

func appendTrace(to []byte, state uint64) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], mix(^state))
	for _, c := range raw {
		to = append(to, hexDigits[c>>4], hexDigits[c&15])
	}
	return to
}

func isTrace(value []byte, state uint64) bool {
	var expected [traceLength]byte
	return bytes.Equal(value, appendTrace(expected[:0], state))
}
