/**
 * The address that a code was sent to. It is no secret, and keeping it for the tab lets an interrupted sign-up go on
 * where it stopped, without the address standing in the URL.
 */
const key = 'sluice.pending_email';

export function pendingEmail(): string {
  return sessionStorage.getItem(key) ?? '';
}

export function setPendingEmail(email: string): void {
  if (email) {
    sessionStorage.setItem(key, email);
  } else {
    sessionStorage.removeItem(key);
  }
}
