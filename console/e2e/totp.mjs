// The codes of an authenticator app: RFC 6238 with SHA-1, 6 digits, 30 seconds.
import { createHmac } from 'node:crypto';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

function fromBase32(text) {
  let bits = '';
  for (const c of text.replace(/[\s=]/g, '').toUpperCase()) {
    bits += alphabet.indexOf(c).toString(2).padStart(5, '0');
  }
  return Buffer.from(bits.match(/.{8}/g).map((b) => Number.parseInt(b, 2)));
}

/** Number of the step that a time in ms lies in. */
export function stepAt(ms) {
  return Math.floor(ms / 30_000);
}

export function codeOf(secret, step) {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', fromBase32(secret)).update(counter).digest();
  const n = mac.readUInt32BE(mac[mac.length - 1] & 15) & 0x7fffffff;
  return String(n % 1_000_000).padStart(6, '0');
}
