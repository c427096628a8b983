package standalone

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/node"
	"github.com/sluicemq/sluice/internal/keyfile"
)

// Life of a self-signed certificate, and how long before its end a start makes
// a new one.
const (
	certLife  = 825 * 24 * time.Hour
	certRenew = 30 * 24 * time.Hour
)

// tlsConfig loads the certificate that is set, or the self-signed one of the
// data folder; it is made when absent or near its end.
func tlsConfig(c *Config, now time.Time) (*tls.Config, error) {
	if c.TLSMode == node.TLSDisabled {
		return nil, nil
	}
	cert, key := c.TLSCert, c.TLSKey
	if cert == "" {
		cert, key = filepath.Join(c.Data, "tls", "cert.pem"), filepath.Join(c.Data, "tls", "key.pem")
		if err := selfSign(cert, key, c.Advertise, now); err != nil {
			return nil, fmt.Errorf("make a self-signed certificate: %w", err)
		}
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert %s, tls.key %s: %w", cert, key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

func selfSign(certPath, keyPath, host string, now time.Time) error {
	pair, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err == nil && pair.Leaf != nil && now.Add(certRenew).Before(pair.Leaf.NotAfter) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Sluice, self-signed"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certLife),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else if host != "" {
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{{keyPath, "PRIVATE KEY", keyDER}, {certPath, "CERTIFICATE", der}} {
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := keyfile.Create(f.path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// withTLS makes a listener whose connections speak what mode allows. What a
// connection speaks is decided at its first read, on the reader's goroutine.
func withTLS(ln net.Listener, mode node.TLSMode, cfg *tls.Config) net.Listener {
	if mode == node.TLSDisabled {
		return ln
	}
	return &tlsListener{Listener: ln, required: mode == node.TLSRequired, cfg: cfg}
}

type tlsListener struct {
	net.Listener
	required bool
	cfg      *tls.Config
}

func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.required {
		return tls.Server(c, l.cfg), nil
	}
	return &peekConn{Conn: c, cfg: l.cfg}, nil
}

// peekConn is plain or TLS, told apart by the first byte that the peer sends.
type peekConn struct {
	net.Conn
	cfg  *tls.Config
	once sync.Once
	use  net.Conn
	err  error
}

// recordHandshake is the first byte of a TLS connection (RFC 8446, 5.1).
const recordHandshake = 0x16

func (p *peekConn) decide() {
	first := make([]byte, 1)
	if _, p.err = p.Conn.Read(first); p.err != nil {
		return
	}
	replay := &replayConn{Conn: p.Conn, first: first}
	if p.use = replay; first[0] == recordHandshake {
		p.use = tls.Server(replay, p.cfg)
	}
}

func (p *peekConn) Read(b []byte) (int, error) {
	p.once.Do(p.decide)
	if p.err != nil {
		return 0, p.err
	}
	return p.use.Read(b)
}

// Write before the first read has nothing to answer to; servers of
// request-reply protocols do not do it.
func (p *peekConn) Write(b []byte) (int, error) {
	p.once.Do(p.decide)
	if p.err != nil {
		return 0, p.err
	}
	return p.use.Write(b)
}

// replayConn gives back the byte that was looked at.
type replayConn struct {
	net.Conn
	first []byte
}

func (r *replayConn) Read(b []byte) (int, error) {
	if len(r.first) > 0 && len(b) > 0 {
		n := copy(b, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}
