import i18next from 'i18next';
import { initReactI18next } from 'react-i18next';
import type en from './en.json';

export const languages = ['en', 'zh'] as const;
export type Language = (typeof languages)[number];

declare module 'i18next' {
  interface CustomTypeOptions {
    defaultNS: 'translation';
    resources: { translation: typeof en };
  }
}

const key = 'sluice.language';
const texts: Record<Language, () => Promise<{ default: object }>> = {
  en: () => import('./en.json'),
  zh: () => import('./zh.json'),
};

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

/** Loads the texts of one language before the first page is drawn; the other is loaded when it is asked for. */
export async function startI18n(): Promise<void> {
  const lng = preferredLanguage();
  const first = await texts[lng]();
  await i18next.use(initReactI18next).init({
    lng,
    fallbackLng: false,
    showSupportNotice: false,
    resources: { [lng]: { translation: first.default } },
    interpolation: { escapeValue: false },
    react: { useSuspense: false },
  });
  document.documentElement.lang = tagOf(lng);
}

export async function setLanguage(to: Language): Promise<void> {
  if (!i18next.hasResourceBundle(to, 'translation')) {
    const more = await texts[to]();
    i18next.addResourceBundle(to, 'translation', more.default);
  }
  localStorage.setItem(key, to);
  await i18next.changeLanguage(to);
  document.documentElement.lang = tagOf(to);
}

/** The tag that browsers and Intl know the language by. */
export function tagOf(language: string): string {
  return language === 'zh' ? 'zh-CN' : 'en';
}
