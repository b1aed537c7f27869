// Command keys writes what a kube-apiserver needs to be started for a measurement: an authority,
// a serving certificate for 127.0.0.1, a key for service accounts, and a token of an administrator.
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: keys FOLDER"))
	}
	folder := os.Args[1]
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	check(err)
	servingKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	serving := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	served, err := x509.CreateCertificate(rand.Reader, serving, authority, servingKey.Public(), authorityKey)
	check(err)
	accountKey, err := rsa.GenerateKey(rand.Reader, 2048)
	check(err)
	token := make([]byte, 16)
	_, err = rand.Read(token)
	check(err)

	certificate := func(bytes []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: bytes})
	}
	write(folder, "ca.crt", certificate(signed))
	write(folder, "serving.crt", certificate(served))
	write(folder, "serving.key", private(servingKey))
	write(folder, "account.key", pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(accountKey),
	}))
	write(folder, "token", fmt.Appendf(nil, "%x\n", token))
	write(folder, "tokens.csv", fmt.Appendf(nil, "%x,admin,admin,system:masters\n", token))
}

func private(key crypto.PrivateKey) []byte {
	bytes, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes})
}

func write(folder, name string, content []byte) {
	check(os.WriteFile(filepath.Join(folder, name), content, 0o600))
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "keys:", err)
	os.Exit(1)
}
