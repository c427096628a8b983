import { useSyncExternalStore } from 'react';

export type ThemeChoice = 'system' | 'light' | 'dark';
export const themeChoices: readonly ThemeChoice[] = ['system', 'light', 'dark'];

const key = 'sluice.theme';
const systemDark = window.matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

function stored(): ThemeChoice {
  const v = localStorage.getItem(key);
  return v === 'light' || v === 'dark' ? v : 'system';
}

let choice = stored();

function dark(): boolean {
  return choice === 'dark' || (choice === 'system' && systemDark.matches);
}

function apply() {
  document.documentElement.dataset.theme = dark() ? 'dark' : 'light';
  for (const l of [...listeners]) {
    l();
  }
}

systemDark.addEventListener('change', apply);
apply();

export function setTheme(to: ThemeChoice): void {
  choice = to;
  localStorage.setItem(key, to);
  apply();
}

function subscribe(l: () => void) {
  listeners.add(l);
  return () => listeners.delete(l);
}

export function useThemeChoice(): ThemeChoice {
  return useSyncExternalStore(subscribe, () => choice);
}

export function useDark(): boolean {
  return useSyncExternalStore(subscribe, dark);
}
