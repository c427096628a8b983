package queuelog

import (
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Statement 30 of the format: an address is the byte plus the smallest i64, and
// smaller than every tags code.
func TestExt_addressesAndBytes(t *testing.T) {
	mem := vfs.NewMem(nil)
	x := NewExt(mem, "/ext/T/0", 200)
	u := ExtUnit{TagsCode: 2598919, StoreTime: 0x1a227ec7d19, Bitmap: []byte{0xab, 0xcd, 0xef}}
	var addresses []int64
	for i := range 20 {
		v := u
		v.StoreTime += int64(i)
		address, err := x.Append(v)
		must(t, err)
		if i%7 == 6 {
			x = NewExt(mem, "/ext/T/0", 200) // it finds its end again
		}
		addresses = append(addresses, address)
	}
	// 8 entries of 23 bytes and 4 bytes of room are 188, 9 would be 211.
	for i, address := range addresses {
		if want := int64(i/8)*200 + int64(i%8)*23 + math.MinInt64; address != want {
			t.Errorf("entry %d has address %d, want %d", i, address, want)
		}
		if !IsExtAddress(address) || address > -2147483649 {
			t.Errorf("%d is no address", address)
		}
		want := u
		want.StoreTime += int64(i)
		if got, err := x.Read(address); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("entry %d is %+v, %v", i, got, err)
		}
	}
	b, err := vfs.ReadFile(mem, "/ext/T/0/00000000000000000000")
	must(t, err)
	if got, want := hex.EncodeToString(b[:23]), "0017"+"000000000027a807"+"000001a227ec7d19"+"0003"+"abcdef"; got != want {
		t.Errorf("entry %s, want %s", got, want)
	}
	if got := hex.EncodeToString(b[184:188]); len(b) != 200 || got != "ffff0000" {
		t.Errorf("%d bytes, behind the last entry %s", len(b), got)
	}
	for _, code := range []int64{0, 1, math.MinInt32, math.MaxInt32, math.MaxInt64} {
		if IsExtAddress(code) {
			t.Errorf("tags code %d is taken for an address", code)
		}
	}
}

func TestExt_badAddressesAndBytes(t *testing.T) {
	mem := vfs.NewMem(nil)
	x := NewExt(mem, "/ext/T/0", 200)
	first, err := x.Append(ExtUnit{TagsCode: 1, StoreTime: 2, Bitmap: []byte{3}})
	must(t, err)
	for _, address := range []int64{7, first + 21, first + 190, first + 199, first + 200, first + 1<<40, -2147483649} {
		if _, err := x.Read(address); !errors.Is(err, ErrDamaged) {
			t.Errorf("address %d: %v", address, err)
		}
	}
	name := "/ext/T/0/00000000000000000000"
	good, err := vfs.ReadFile(mem, name)
	must(t, err)
	for _, i := range []int{0, 1, 18, 19} {
		for bit := range 8 {
			b := append([]byte(nil), good...)
			b[i] ^= 1 << bit
			must(t, vfs.WriteFile(mem, name, b))
			if _, err := x.Read(first); !errors.Is(err, ErrDamaged) {
				t.Errorf("byte %d bit %d: %v", i, bit, err)
			}
		}
	}
	if _, err := x.Append(ExtUnit{Bitmap: make([]byte, 180)}); err == nil {
		t.Error("an entry that fits into no file was added")
	}
}
