package remoting

import (
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// maxIdleWorkers is how many goroutines of one server or client wait for the
// next request instead of ending: a new one has to grow its stack first.
const maxIdleWorkers = 64

// workers run handlers. There are as many as requests being handled, and some
// that wait.
type workers struct {
	tasks chan task // unbuffered: only who waits takes one
	stop  chan struct{}
	once  sync.Once
	idle  atomic.Int32
	all   sync.WaitGroup
}

// task is one request of a connection.
type task struct {
	c     *Conn
	f     *wire.Frame
	taken int // of the connection's large, given back when the handler returned
}

func newWorkers() *workers { return &workers{tasks: make(chan task), stop: make(chan struct{})} }

// run handles t on a goroutine that waits, or on a new one.
func (w *workers) run(t task) {
	select {
	case w.tasks <- t:
	default:
		w.all.Add(1)
		go w.work(t) // ends when enough others wait, or with close
	}
}

func (w *workers) work(t task) {
	defer w.all.Done()
	for {
		t.c.handleTask(t)
		t = task{}
		if w.idle.Add(1) > maxIdleWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case t = <-w.tasks:
			w.idle.Add(-1)
		case <-w.stop:
			return
		}
	}
}

// close ends those that wait, once all connections have ended, and returns when
// they have.
func (w *workers) close() {
	w.once.Do(func() { close(w.stop) })
	w.all.Wait()
}
