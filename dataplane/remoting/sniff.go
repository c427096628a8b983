package remoting

import (
	"bufio"
	"net"
	"strings"
)

// Protocol is what the first bytes of a connection look like.
type Protocol uint8

// Protocols that are told apart. A remoting frame begins with a length under
// 2^25, so with a byte 0 or 1; every other first byte is something else.
const (
	ProtocolRemoting Protocol = iota
	ProtocolTLS
	ProtocolHTTP
	ProtocolHTTP2
	ProtocolProxy
	ProtocolUnknown
	protocolCount
)

var protocolNames = [...]string{"remoting", "TLS", "HTTP/1", "HTTP/2 (gRPC)", "PROXY protocol", "unknown"}

func (p Protocol) String() string { return protocolNames[p] }

var httpMethods = []string{"GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN", "TRAC"}

// sniff tells the protocol without consuming anything. It blocks until one
// byte is there, and until four are when the first is not of remoting or TLS.
func sniff(br *bufio.Reader) (Protocol, error) {
	b, err := br.Peek(1)
	if err != nil {
		return ProtocolUnknown, err
	}
	switch b[0] {
	case 0, 1:
		return ProtocolRemoting, nil
	case 0x16:
		return ProtocolTLS, nil
	}
	b, err = br.Peek(4)
	if err != nil {
		return ProtocolUnknown, nil // junk and gone: still worth its log line
	}
	head := string(b)
	if head == "PRI " {
		return ProtocolHTTP2, nil
	}
	if head == "PROX" || strings.HasPrefix(head, "\r\n\r\n") {
		return ProtocolProxy, nil
	}
	for _, m := range httpMethods {
		if head == m {
			return ProtocolHTTP, nil
		}
	}
	return ProtocolUnknown, nil
}

// peekedConn is a connection whose first bytes lie in br.
type peekedConn struct {
	net.Conn
	br *bufio.Reader
}

func (c *peekedConn) Read(p []byte) (int, error) { return c.br.Read(p) }
