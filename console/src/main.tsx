import './tokens.css';
import './light/light.css';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { startI18n } from './i18n';
import { Root } from './Root';

startI18n().then(() => {
  const at = document.getElementById('root');
  if (at) {
    createRoot(at).render(
      <StrictMode>
        <Root />
      </StrictMode>,
    );
  }
});
