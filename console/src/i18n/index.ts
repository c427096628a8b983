import i18next from 'i18next';
import { initReactI18next } from 'react-i18next';
import type consoleTexts from './console/en.json';
import type lightTexts from './en.json';

export const languages = ['en', 'zh'] as const;
export type Language = (typeof languages)[number];

declare module 'i18next' {
  interface CustomTypeOptions {
    defaultNS: 'translation';
    resources: { translation: typeof lightTexts & typeof consoleTexts };
  }
}

const key = 'sluice.language';

/** The texts of the light pages come with the first page, those of the console with the console. */
const parts: Record<'light' | 'console', Record<Language, () => Promise<{ default: object }>>> = {
  light: { en: () => import('./en.json'), zh: () => import('./zh.json') },
  console: { en: () => import('./console/en.json'), zh: () => import('./console/zh.json') },
};
type Part = keyof typeof parts;
const wanted = new Set<Part>();
const there = new Set<string>();

async function load(part: Part, language: Language): Promise<void> {
  const name = `${part} ${language}`;
  if (there.has(name)) {
    return;
  }
  const texts = await parts[part][language]();
  i18next.addResourceBundle(language, 'translation', texts.default, true);
  there.add(name);
}

function isLanguage(v: unknown): v is Language {
  return v === 'en' || v === 'zh';
}

/** The language chosen before, else the first one of the browser that there is a text for. */
export function preferredLanguage(): Language {
  const stored = localStorage.getItem(key);
  if (isLanguage(stored)) {
    return stored;
  }
  for (const wanted of navigator.languages) {
    const base = wanted.toLowerCase().split('-')[0];
    if (isLanguage(base)) {
      return base;
    }
  }
  return 'en';
}

/** Loads the light texts of one language before the first page is drawn; the other is loaded when it is asked for. */
export async function startI18n(): Promise<void> {
  const lng = preferredLanguage();
  await i18next.use(initReactI18next).init({
    lng,
    fallbackLng: false,
    showSupportNotice: false,
    resources: {},
    interpolation: { escapeValue: false },
    react: { useSuspense: false },
  });
  wanted.add('light');
  await load('light', lng);
  document.documentElement.lang = tagOf(lng);
}

/** Loads the texts of the console in the language that is shown; must have ended before the console is drawn. */
export async function loadConsoleTexts(): Promise<void> {
  wanted.add('console');
  await load('console', i18next.language as Language);
}

export async function setLanguage(to: Language): Promise<void> {
  await Promise.all([...wanted].map((part) => load(part, to)));
  localStorage.setItem(key, to);
  await i18next.changeLanguage(to);
  document.documentElement.lang = tagOf(to);
}

/** The tag that browsers and Intl know the language by. */
export function tagOf(language: string): string {
  return language === 'zh' ? 'zh-CN' : 'en';
}
